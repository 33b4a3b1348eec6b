"""Tools that fail on purpose, where a plan says so."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from functools import partial
from itertools import count
from typing import Any

from msgspec.structs import replace

from offbook.clock import SYSTEM_CLOCK, Clock
from offbook.events import NULL_SINK, FaultFired, Sink
from offbook.faults.catalog import AnyToolFault
from offbook.faults.plan import FaultPlan
from offbook.faults.site import PlannedFault, ToolSite
from offbook.faults.strikes import Strikes
from offbook.faults.tool_fault import StruckTool
from offbook.messages import JsonObject, ToolCall
from offbook.tools.definition import ToolDef
from offbook.tools.dispatch import is_async, run_tool
from offbook.tools.toolbox import GivenTools, Toolbox
from offbook.tools.wrapped import wrapped


def inject_tools(
    tools: GivenTools,
    plan: FaultPlan,
    *,
    strikes: Strikes | None = None,
    sink: Sink = NULL_SINK,
    clock: Clock = SYSTEM_CLOCK,
) -> FaultyTools:
    """The same tools, which fail where the plan has a fault for them.

    Args:
        tools: functions and tools, as `Toolbox` takes them. Put a recorder or a replay inside: `inject_tools`
            goes around it, so that recordings stay clean.
        plan: its lines with a `tool` count here, and the others nothing.
        strikes: keeps what struck; injectors that share it tell of each other's.
        sink: told of every fault that strikes.
    """
    return FaultyTools(Toolbox(tools), plan, strikes=strikes or Strikes(), sink=sink, clock=clock)


class FaultyTools(Toolbox):
    """Tools that fail where `plan` says so, which may be exchanged for another.

    `fired` lists what struck, as lines of a plan, and `unstruck()` what did not. The calls of each tool are
    counted from 1, however often it is wrapped; a call whose arguments are refused is none.

    A synchronous tool fails at once when it is called, except where a fault has it wait: that call gives
    something to wait for.
    """

    def __init__(self, tools: Toolbox, plan: FaultPlan, *, strikes: Strikes, sink: Sink, clock: Clock) -> None:
        self.plan = plan
        self._strikes, self._sink, self._clock = strikes, sink, clock
        self._counts: dict[str, Iterator[int]] = {}
        super().__init__([self.wrap(tool) for tool in tools.values()])

    @property
    def fired(self) -> list[PlannedFault]:
        """What struck, in order."""
        return self._strikes.fired

    def unstruck(self) -> list[PlannedFault]:
        """The lines of the plan about tools that have struck nothing so far."""
        return self._strikes.missing(line for line in self.plan if line.at.tool is not None)

    def wrap(self, tool: ToolDef) -> ToolDef:
        """A further tool, put in place like the others; its calls count with theirs."""

        def call(**arguments: Any) -> Any:
            fault = self._fault(tool)
            return self._run(tool, arguments) if fault is None else self._strike(fault, tool, arguments)

        async def call_and_wait(**arguments: Any) -> Any:
            fault, struck = self._fault(tool), self._struck(tool, arguments)
            return await (struck.run() if fault is None else fault.strike_tool(struck))

        waits = is_async(tool.callable) or tool.timeout_s is not None
        return wrapped(tool, call_and_wait if waits else call, timeout_s=tool.timeout_s)

    def _fault(self, tool: ToolDef) -> AnyToolFault | None:
        """Count a call, and give the fault that strikes it, if one does."""
        site = ToolSite(tool.name, next(self._counts.setdefault(tool.name, count(1))))
        fault = self.plan.tool_fault_at(site)
        if fault is not None:
            self._strikes.note(PlannedFault(site.named(), fault), self.plan.line_at(site))
            self._sink.emit(FaultFired(None, "", fault.type, call=site.call, tool=site.tool))
        return fault

    def _strike(self, fault: AnyToolFault, tool: ToolDef, arguments: JsonObject) -> Any:
        """What a call of a synchronous tool comes to, or what gives it where there is something to wait for."""
        struck = self._struck(tool, arguments)
        if fault.wait_s:
            return fault.strike_tool(struck)
        given = self._run(tool, arguments) if fault.runs_tool else None
        if isinstance(given, Awaitable):
            return fault.strike_tool(replace(struck, run=lambda: given))
        return fault.outcome(tool.name)

    def _struck(self, tool: ToolDef, arguments: JsonObject) -> StruckTool:
        return StruckTool(tool.name, arguments, partial(self._run_to_its_end, tool, arguments), self._clock)

    def _run(self, tool: ToolDef, arguments: JsonObject) -> Any:
        with self._strikes.told():
            value = tool.callable(**tool.bind(arguments))
        return self._awaited(value) if isinstance(value, Awaitable) else value

    async def _awaited(self, value: Awaitable[Any]) -> Any:
        with self._strikes.told():
            return await value

    async def _run_to_its_end(self, tool: ToolDef, arguments: JsonObject) -> Any:
        if tool.timeout_s is None:
            value = self._run(tool, arguments)
            return await value if isinstance(value, Awaitable) else value
        with self._strikes.told():
            outcome = await run_tool(tool, ToolCall(tool.name, arguments))
        if outcome.error is not None:
            raise outcome.error
        return outcome.value
