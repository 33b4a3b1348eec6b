"""The harness of one in-process run: replayed models and tools with faults and observers around them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from offbook.effects import Effect, ToolDeclaration, count_collected
from offbook.explore.observers import ModelObserver, RecoveryCounter, ToolObserver
from offbook.explore.options import EXPLORE_DIVERGENCE, Divergence
from offbook.explore.replay import (
    ExploredModels,
    ExploredTools,
    ModelRecording,
    RecordedUsers,
    ScriptLine,
    ToolRecording,
    model_lines,
    tool_lines,
)
from offbook.explore.run import ModelCall, ToolRun
from offbook.faults import FaultInjector, FaultPlan, inject_tools
from offbook.faults.injector import FaultLog
from offbook.gateway.gateway import ProviderGateway
from offbook.providers.provider import Provider
from offbook.recording.match.continuation import Continuation, gave_up_mark
from offbook.recording.stores.store import RecordingReader
from offbook.tools import Toolbox, ToolDef
from offbook.tools.definition import wrap_tool
from offbook.tools.dispatch import is_async
from offbook.tools.toolbox import GivenTool, GivenTools

NO_DECLARATIONS: Mapping[str, ToolDeclaration] = MappingProxyType({})


class CallLimits(Struct, frozen=True, kw_only=True):
    """How many calls of models and of tools a run may make before it counts as endless."""

    models: int
    tools: int


class Harness:
    """The models and tools of one explored run.

    `provider` and `gateway` answer model calls from the recording, with the faults of the plan; `tools` does the same
    for tools. Every call is observed.
    """

    def __init__(
        self,
        plan: FaultPlan,
        *,
        models: ExploredModels,
        tools: ExploredTools | None,
        limits: CallLimits,
        declarations: Mapping[str, ToolDeclaration] = NO_DECLARATIONS,
    ) -> None:
        self.recovery_counter = RecoveryCounter()
        self.diverged: list[str] = []
        self.declarations: dict[str, ToolDeclaration] = {}
        self._models, self._replayed_tools, self._declared = models, tools, declarations
        self._users = RecordedUsers(models)
        self._fault_log, self._tool_observer = FaultLog(), ToolObserver(max_calls=limits.tools)
        models.on_diverged = self.diverged.append
        if tools is not None:
            tools.on_diverged = self.diverged.append
            tools.on_end = models.end
        injector = FaultInjector(models, plan, fault_log=self._fault_log, marked=True)
        self._model_observer = ModelObserver(injector, models, max_calls=limits.models)
        self._model_observer.count_effects = lambda: count_collected() + self._tool_observer.effect_count
        self._faulty_tools = inject_tools((), plan, fault_log=self._fault_log, marked=True)

    @property
    def provider(self) -> Provider:
        """The provider that answers model calls. It does not retry."""
        return self._model_observer

    @property
    def users(self) -> Provider:
        """What plays simulated users: their own recorded turns, in order, without faults and observers."""
        return self._users

    @cached_property
    def gateway(self) -> ProviderGateway:
        """A gateway around `provider`, which retries failed calls."""
        gateway = ProviderGateway(sink=self.recovery_counter)
        gateway.register(self.provider)
        return gateway

    def tools(self, *given: GivenTool | GivenTools) -> Toolbox:
        """Wrap tools: `tools(search, book)`. They are replayed if the recording has any calls of tools."""
        return Toolbox(list(self.wrap_tools(Toolbox.of(*given)).values()))

    def wrap_tools(self, tools: Mapping[str, ToolDef]) -> dict[str, ToolDef]:
        """Wrap tools by name."""
        return {name: self.wrap(tool) for name, tool in tools.items()}

    def wrap(self, tool: ToolDef) -> ToolDef:
        """Wrap one tool: inside is the tool or its recording, around it are faults, outside is what the agent sees."""
        declared = _declare(tool, self._declared.get(tool.name))
        self.declarations[tool.name] = declared.declaration
        inner = declared if self._replayed_tools is None else _replay_tool(declared, self._replayed_tools)
        return self._tool_observer.outside(self._faulty_tools.wrap(self._tool_observer.inside(inner)))

    def on_endless(self, end: Callable[[str], object]) -> None:
        """Call `end` with the reason when the run makes too many calls, instead of raising an error."""
        self._model_observer.on_endless = self._tool_observer.on_endless = end

    @property
    def calls(self) -> tuple[ModelCall, ...]:
        """The model calls so far."""
        return tuple(self._model_observer.calls)

    @property
    def tool_runs(self) -> tuple[ToolRun, ...]:
        """The tool calls so far."""
        return self._tool_observer.runs

    @property
    def effects(self) -> tuple[Effect, ...]:
        """The side effects so far: the calls of tools that have one and that ran."""
        return self._tool_observer.effects

    @property
    def fired(self) -> tuple[str, ...]:
        """The faults that fired, as lines of a plan."""
        return tuple(str(planned) for planned in self._fault_log.fired)

    @property
    def marks(self) -> tuple[str, ...]:
        """The marks that the texts of these faults carry."""
        return tuple(self._fault_log.marks)

    @property
    def continuation(self) -> str:
        """What answered what was never recorded: a continuation, `default` or `live`; empty if nothing had to."""
        tools = "" if self._replayed_tools is None else self._replayed_tools.continued_by
        return self._models.continued_by or tools


def _declare(tool: ToolDef, declared: ToolDeclaration | None) -> ToolDef:
    """Return the tool with what is declared about it elsewhere, beside what it declares itself."""
    if declared is None:
        return tool
    return replace(
        tool,
        side_effect=tool.side_effect or declared.side_effect,
        read_only=tool.read_only or declared.read_only,
        idempotent=tool.idempotent or declared.idempotent,
        undoes=tool.undoes or declared.undoes,
    )


def _replay_tool(tool: ToolDef, recorded: ExploredTools) -> ToolDef:
    def answer(**arguments: Any) -> Any:
        return recorded.answer(tool, arguments)

    async def answer_later(**arguments: Any) -> Any:
        return recorded.answer(tool, arguments)

    return wrap_tool(tool, answer_later if is_async(tool.callable) else answer, timeout_s=tool.timeout_s)


SPARE_CALLS = 100
"""How many calls a run may make beyond five times those of the clean run, before it counts as endless."""

MAX_CLEAN_CALLS = 10_000


class CleanScript(Struct, frozen=True):
    """What the clean run was answered, in order, and how many calls it made: for runs in other processes."""

    models: tuple[ScriptLine, ...]
    tools: tuple[ScriptLine, ...]
    limits: CallLimits


class HarnessFactory:
    """Creates the harnesses of runs on one recording. The first is for the clean run, which writes the script.

    Args:
        reader: the recording. It is closed with the factory.
        divergence: what answers a request that was never recorded.
        declarations: what is declared about tools by name, beside what they declare themselves.
    """

    def __init__(
        self,
        reader: RecordingReader,
        divergence: Divergence = EXPLORE_DIVERGENCE,
        *,
        declarations: Mapping[str, ToolDeclaration] = NO_DECLARATIONS,
    ) -> None:
        self._reader, self._declarations = reader, declarations
        self._models = ModelRecording(reader, divergence)
        self._tools = ToolRecording(reader.tools, divergence)
        self._clean: Harness | None = None
        self._limits: CallLimits | None = None

    @property
    def has_script(self) -> bool:
        """Whether there was a clean run, so that the next run follows its script."""
        return self._limits is not None or self._clean is not None

    @property
    def script(self) -> CleanScript:
        """The script of the clean run, which was made in this process."""
        return CleanScript(model_lines(self._models.script), tool_lines(self._tools.script), self._call_limits())

    def load_script(self, script: CleanScript) -> None:
        """Follow the script of a clean run that was made in another process."""
        self._models.load(script.models)
        self._tools.load(script.tools)
        self._limits = script.limits

    def create(self, plan: FaultPlan, continuation: Continuation = "stubborn") -> Harness:
        """Return the harness of the next run. Tools run for real if the recording has no calls of tools.

        `continuation` answers what was never recorded, if that is how divergences are answered.
        """
        harness = Harness(
            plan,
            models=self._models.start_run(continuation, mark=gave_up_mark(plan)),
            tools=None if self._tools.is_empty else self._tools.start_run(continuation),
            limits=self._call_limits(),
            declarations=self._declarations,
        )
        if not self.has_script:
            self._clean = harness
        return harness

    def _call_limits(self) -> CallLimits:
        if self._clean is None:
            return self._limits or CallLimits(models=MAX_CLEAN_CALLS, tools=MAX_CLEAN_CALLS)
        calls, tools = len(self._clean.calls), len(self._clean.tool_runs)
        return CallLimits(models=max_calls_after(calls), tools=max_calls_after(tools))

    def close(self) -> None:
        """Close the recording."""
        self._reader.close()


def max_calls_after(clean_calls: int) -> int:
    """Return how many calls a run may make where the clean run made `clean_calls`."""
    return 5 * clean_calls + SPARE_CALLS
