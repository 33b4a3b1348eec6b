"""The seam of steps: something that can be run on a state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeAlias, TypeVar

from msgspec import Struct

from offbook.events import Sink
from offbook.gateway.gateway import ProviderGateway
from offbook.messages import JsonObject
from offbook.tools import Toolbox, ToolDef
from offbook.workflow.checkpoint import Checkpoint
from offbook.workflow.config_definition import ConfigDefinition
from offbook.workflow.result import StepResult
from offbook.workflow.step_definition import StepFields
from offbook.workflow.tool_definition import ToolDefinition

OnText: TypeAlias = Callable[[str, str], object]
LoadTools: TypeAlias = Callable[[Mapping[str, ToolDefinition]], Mapping[str, ToolDef]]
D = TypeVar("D", bound=StepFields)


class Environment(Struct, frozen=True):
    """What the steps of a workflow have in common, in every run of it.

    `load_tools` makes tools of what a file declares.
    `prefix` comes before the ids of steps in recordings, in a sub-workflow. `on_text` hears the pieces
    of streamed answers, each with its step's id. `names` is what expressions may begin with.
    """

    workflow: str
    config: ConfigDefinition
    toolbox: Toolbox
    sink: Sink
    checkpoint: Checkpoint
    on_text: OnText
    load_tools: LoadTools
    names: tuple[str, ...] = ("state",)
    prefix: str = ""


class RunContext(Struct, frozen=True):
    """What the steps of one run have in common: where models are asked, and what became of the steps so far."""

    gateway: ProviderGateway
    results: dict[str, StepResult]


class Scope(Struct, frozen=True):
    """What a step sees when it runs: the state, a loop's variables, and where in the run it is (`loop[0].`)."""

    run: RunContext
    state: JsonObject
    variables: Mapping[str, Any] = {}
    place: str = ""

    @property
    def names(self) -> dict[str, Any]:
        """What templates and expressions can name."""
        return {"state": self.state, **self.variables}


class Step(ABC, Generic[D]):
    """A step that can be run, any number of times. A subclass says how its type is run."""

    def __init__(self, definition: D, environment: Environment) -> None:
        self.definition, self.environment = definition, environment
        self.retry = None if definition.retry is None else definition.retry.policy()

    @abstractmethod
    async def run(self, scope: Scope, gateway: ProviderGateway) -> Any:
        """What the step gives. `gateway` is where it asks models: it retries as the step says, and is metered."""
