"""The stage of one in-process run: its models, tools and faults, all of them watched."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from offbook.explore.models import ExploredModels
from offbook.explore.path_count import PathCount
from offbook.explore.recorded_tools import ExploredTools
from offbook.explore.run import ModelCall, ToolRun
from offbook.explore.tool_witness import ToolWitness
from offbook.explore.witness import Witness
from offbook.faults import FaultInjector, FaultPlan, inject_tools
from offbook.faults.strikes import Strikes
from offbook.gateway.gateway import ProviderGateway
from offbook.providers.provider import Provider
from offbook.tools import Toolbox, ToolDef
from offbook.tools.dispatch import is_async
from offbook.tools.toolbox import GivenTool, GivenTools
from offbook.tools.wrapped import wrapped


class Stage:
    """What a run is given in the place of its models and tools. `provider` and `gateway` answer, `tools` wraps."""

    def __init__(self, plan: FaultPlan, *, models: ExploredModels, tools: ExploredTools | None, max_calls: int) -> None:
        self.path_count = PathCount()
        self._models = models
        self.diverged: list[str] = []
        self._strikes = Strikes()
        self._recorded, self._tool_witness = tools, ToolWitness()
        models.on_diverged = self.diverged.append
        if tools is not None:
            tools.on_diverged = self.diverged.append
            tools.on_end = models.end
        injector = FaultInjector(models, plan, strikes=self._strikes)
        self._witness = Witness(injector, models, max_calls=max_calls)
        self._faulty = inject_tools((), plan, strikes=self._strikes)

    @property
    def provider(self) -> Provider:
        """What is asked instead of a model: its failures are not tried again."""
        return self._witness

    @property
    def aside(self) -> Provider:
        """The same for those who are not explored, such as a simulated user: unseen, and no fault strikes there."""
        return self._models

    @cached_property
    def gateway(self) -> ProviderGateway:
        """The same behind a gateway that tries failed calls again."""
        gateway = ProviderGateway(sink=self.path_count)
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
        inner = self._tool_witness.inside(tool if self._recorded is None else _answered(tool, self._recorded))
        return self._tool_witness.outside(self._faulty.wrap(inner))

    @property
    def calls(self) -> tuple[ModelCall, ...]:
        return tuple(self._witness.calls)

    @property
    def tool_runs(self) -> tuple[ToolRun, ...]:
        return self._tool_witness.runs

    @property
    def struck(self) -> tuple[str, ...]:
        """The faults that struck, as lines of a plan."""
        return tuple(str(planned) for planned in self._strikes.fired)


def _answered(tool: ToolDef, recorded: ExploredTools) -> ToolDef:
    def answer(**arguments: Any) -> Any:
        return recorded.answer(tool, arguments)

    async def answer_later(**arguments: Any) -> Any:
        return recorded.answer(tool, arguments)

    return wrapped(tool, answer_later if is_async(tool.callable) else answer, timeout_s=tool.timeout_s)
