"""The base class of runnable steps, the environment they share, and the state they read and write."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any, Generic, TypeAlias, TypeVar

from msgspec import Struct

from offbook.errors import InputError
from offbook.events import Sink
from offbook.gateway.gateway import ProviderGateway
from offbook.messages import JsonObject
from offbook.text import did_you_mean
from offbook.tools import Toolbox, ToolDef
from offbook.workflow.engine.result import Checkpoint, StepResult
from offbook.workflow.file.schema import ConfigDefinition, StepFields, ToolDefinition

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


class StepRunner(ABC, Generic[D]):
    """A step that can be run, any number of times. A subclass says how its type is run."""

    def __init__(self, definition: D, environment: Environment) -> None:
        self.definition, self.environment = definition, environment
        self.retry = None if definition.retry is None else definition.retry.policy()

    @abstractmethod
    async def run(self, scope: Scope, gateway: ProviderGateway) -> Any:
        """What the step gives. `gateway` is where it asks models: it retries as the step says, and is metered."""


def initial_state(declared: JsonObject, given: JsonObject, *, source: str) -> JsonObject:
    """A fresh state: what the workflow declares, with what is given in place of it.

    Raises:
        InputError: a key is given that the workflow does not declare.
    """
    for key in given:
        if key not in declared:
            hint = did_you_mean(key, declared, kind="declared")
            raise InputError(f"the workflow's state has no key {key!r}", source=source, place="state", hint=hint)
    return deepcopy(declared | given)


def set_path(state: JsonObject, path: str, value: Any) -> None:
    """Write a value at a dotted path; what is on the way and no mapping becomes one.

    The mappings on the way are replaced, never changed: a shallow copy of a state is a copy.
    """
    *parents, last = path.split(".")
    for key in parents:
        inner = state.get(key)
        state[key] = state = dict(inner) if isinstance(inner, dict) else {}
    state[last] = value
