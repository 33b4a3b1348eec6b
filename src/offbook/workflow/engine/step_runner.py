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
from offbook.gateway.retry import RetryPolicy
from offbook.messages import JsonObject
from offbook.text import did_you_mean
from offbook.tools import Toolbox, ToolDef
from offbook.workflow.engine.result import Checkpoint, StepResult
from offbook.workflow.file.schema import ConfigDefinition, StepFields, ToolDefinition

OnText: TypeAlias = Callable[[str, str], object]
D = TypeVar("D", bound=StepFields)


class LoadedTools(Struct, frozen=True):
    """The tools that a file declares, and the same with the wrappers of the run."""

    own: Mapping[str, ToolDef]
    wrapped: Mapping[str, ToolDef]


LoadTools: TypeAlias = Callable[[Mapping[str, ToolDefinition]], LoadedTools]


class Environment(Struct, frozen=True, kw_only=True):
    """What the steps of a workflow share in all of its runs.

    `toolbox` has the tools as they are called, with the wrappers of the run, and `own_tools` the same without them.
    `retry` is the policy of steps that have none of their own. `on_text` is called with the id of a step and each piece
    of its streamed answers. `load_tools` loads the tools that a file declares. `names` are the names that expressions
    may use. `prefix` precedes the ids of a sub-workflow's steps in recordings.
    """

    workflow: str
    config: ConfigDefinition
    toolbox: Toolbox
    own_tools: Mapping[str, ToolDef]
    sink: Sink
    checkpoint: Checkpoint
    on_text: OnText
    load_tools: LoadTools
    retry: RetryPolicy | None = None
    names: tuple[str, ...] = ("state",)
    prefix: str = ""


class RunContext(Struct, frozen=True):
    """What the steps of one run share: the gateway, and the results so far."""

    gateway: ProviderGateway
    results: dict[str, StepResult]


class Scope(Struct, frozen=True):
    """What a step sees when it runs: the state, the variables of loops, and its place in the run (`loop[0].`)."""

    run: RunContext
    state: JsonObject
    variables: Mapping[str, Any] = {}
    place: str = ""

    @property
    def names(self) -> dict[str, Any]:
        """The values that templates and expressions can name."""
        return {"state": self.state, **self.variables}


class StepRunner(ABC, Generic[D]):
    """A step that can run any number of times; a subclass for each type."""

    def __init__(self, definition: D, environment: Environment) -> None:
        self.definition, self.environment = definition, environment
        self.retry = environment.retry if definition.retry is None else definition.retry.policy()

    @abstractmethod
    async def run(self, scope: Scope, gateway: ProviderGateway) -> Any:
        """Run the step and return its output. `gateway` has the retry policy of the step, and measures its usage."""


def initial_state(declared: JsonObject, given: JsonObject, *, source: str) -> JsonObject:
    """Return a copy of the declared state with the given keys replaced.

    Raises:
        InputError: a given key is not declared.
    """
    for key in given:
        if key not in declared:
            hint = did_you_mean(key, declared, kind="declared")
            raise InputError(f"the workflow's state has no key {key!r}", source=source, place="state", hint=hint)
    return deepcopy(declared | given)


def set_path(state: JsonObject, path: str, value: Any) -> None:
    """Write a value at a dotted path; values on the way that are not mappings become mappings.

    Mappings on the way are replaced, never changed, so that a shallow copy of a state is safe.
    """
    *parents, last = path.split(".")
    for key in parents:
        inner = state.get(key)
        state[key] = state = dict(inner) if isinstance(inner, dict) else {}
    state[last] = value
