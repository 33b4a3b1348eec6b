"""The harness of one in-process run: replayed models and tools with faults and observers around them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property
from typing import Any

from msgspec.structs import replace

from offbook.explore.observers import ModelObserver, RecoveryCounter, ToolObserver
from offbook.explore.options import STOP_ON_DIVERGENCE, Divergence
from offbook.explore.replay import ExploredModels, ExploredTools, ModelRecording, ToolRecording
from offbook.explore.run import ModelCall, ToolRun
from offbook.faults import FaultInjector, FaultPlan, inject_tools
from offbook.faults.injector import FaultLog
from offbook.gateway.gateway import ProviderGateway
from offbook.providers.provider import Provider
from offbook.recording.stores.store import RecordingReader
from offbook.tools import Toolbox, ToolDef
from offbook.tools.definition import wrap_tool
from offbook.tools.dispatch import is_async
from offbook.tools.toolbox import GivenTool, GivenTools


class Harness:
    """What a run is given in the place of its models and tools. `provider` and `gateway` answer, `tools` wraps."""

    def __init__(self, plan: FaultPlan, *, models: ExploredModels, tools: ExploredTools | None, max_calls: int) -> None:
        self.recovery_counter = RecoveryCounter()
        self._models = models
        self.diverged: list[str] = []
        self._fault_log = FaultLog()
        self._recorded, self._tool_observer = tools, ToolObserver()
        models.on_diverged = self.diverged.append
        if tools is not None:
            tools.on_diverged = self.diverged.append
            tools.on_end = models.end
        injector = FaultInjector(models, plan, fault_log=self._fault_log)
        self._model_observer = ModelObserver(injector, models, max_calls=max_calls)
        self._faulty = inject_tools((), plan, fault_log=self._fault_log)

    @property
    def provider(self) -> Provider:
        """What is asked instead of a model: its failures are not tried again."""
        return self._model_observer

    @property
    def unobserved(self) -> Provider:
        """The same for those who are not explored, such as a simulated user: unseen, and no fault strikes there."""
        return self._models

    @cached_property
    def gateway(self) -> ProviderGateway:
        """The same behind a gateway that tries failed calls again."""
        gateway = ProviderGateway(sink=self.recovery_counter)
        gateway.register(self.provider)
        return gateway

    def tools(self, *given: GivenTool | GivenTools) -> Toolbox:
        """The tools, answered from the recording if it has calls of tools, and watched: `tools(search, book)`."""
        named: dict[str, ToolDef] = {}
        for each in given:
            named |= Toolbox([each] if callable(each) or isinstance(each, ToolDef) else each)
        return Toolbox(list(self.wrap_tools(named).values()))

    def wrap_tools(self, tools: Mapping[str, ToolDef]) -> dict[str, ToolDef]:
        """The like for tools by name."""
        return {name: self.wrap(tool) for name, tool in tools.items()}

    def wrap(self, tool: ToolDef) -> ToolDef:
        """One tool, from the inside out: itself or its recording, whether it has run, faults, what the agent sees."""
        inner = self._tool_observer.inside(tool if self._recorded is None else _replayed_tool(tool, self._recorded))
        return self._tool_observer.outside(self._faulty.wrap(inner))

    @property
    def calls(self) -> tuple[ModelCall, ...]:
        return tuple(self._model_observer.calls)

    @property
    def tool_runs(self) -> tuple[ToolRun, ...]:
        return self._tool_observer.runs

    @property
    def fired(self) -> tuple[str, ...]:
        """The faults that fired, as lines of a plan."""
        return tuple(str(planned) for planned in self._fault_log.fired)


def _replayed_tool(tool: ToolDef, recorded: ExploredTools) -> ToolDef:
    def answer(**arguments: Any) -> Any:
        return recorded.answer(tool, arguments)

    async def answer_later(**arguments: Any) -> Any:
        return recorded.answer(tool, arguments)

    return wrap_tool(tool, answer_later if is_async(tool.callable) else answer, timeout_s=tool.timeout_s)


SPARE_CALLS = 100
"""How many calls of models a run may make beyond five times those of the clean one, before it counts as endless."""

MAX_CLEAN_CALLS = 10_000


class HarnessFactory:
    """Stages runs of one recording. The first must be the clean one: it writes the script that the others are read."""

    def __init__(self, shelf: RecordingReader, divergence: Divergence = STOP_ON_DIVERGENCE) -> None:
        self._shelf = shelf
        self._models = ModelRecording(shelf, divergence)
        self._tools = ToolRecording(shelf.tools, divergence)
        self._clean: Harness | None = None

    def create(self, plan: FaultPlan) -> Harness:
        """A harness for the next run."""
        if self._clean is None:
            self._clean = Harness(
                plan, models=self._models.start_run(), tools=self._recorded(), max_calls=MAX_CLEAN_CALLS
            )
            return self._clean
        max_calls = max_calls_after(len(self._clean.calls))
        return Harness(plan, models=self._models.start_run(), tools=self._recorded(), max_calls=max_calls)

    def close(self) -> None:
        self._shelf.close()

    def _recorded(self) -> ExploredTools | None:
        """The recorded tools, or None where the real ones are to run, as nothing of them is recorded."""
        return None if self._tools.is_empty else self._tools.start_run()


def max_calls_after(clean_calls: int) -> int:
    """How many calls a run may make, where the clean one has made so many."""
    return 5 * clean_calls + SPARE_CALLS


class SideEffectHarness:
    """The stand-ins of a harness, with the tools of these names marked as having side effects."""

    def __init__(self, harness: Harness, side_effects: Collection[str]) -> None:
        self._harness, self._side_effects = harness, side_effects

    @property
    def provider(self) -> Provider:
        return self._harness.provider

    def wrap(self, tool: ToolDef) -> ToolDef:
        """The tool, answered, watched and with faults as the harness has it."""
        marked = replace(tool, side_effect=True) if tool.name in self._side_effects else tool
        return self._harness.wrap(marked)
