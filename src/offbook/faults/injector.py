"""Injects the faults of a plan into calls of models and tools, and logs which fired."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from typing import Any, NoReturn

from msgspec import Struct
from msgspec.structs import replace

from offbook.clock import SYSTEM_CLOCK, Clock, running_loop
from offbook.errors import InputError, RecordingMismatchError
from offbook.events import NULL_SINK, FaultFired, Sink
from offbook.faults.fault import FaultedCall, hold_nothing
from offbook.faults.order import CallOrder, DeliveredTwice, OpenCall, OrderFault
from offbook.faults.plan import FaultPlan
from offbook.faults.site import (
    At,
    CallNumbers,
    PlannedFault,
    ReachedSites,
    Site,
    ToolSite,
    faults_of_other_calls,
    mark_of,
)
from offbook.faults.tools import FaultedToolCall, ToolFault
from offbook.messages import JsonObject, Reply, Request, StreamedReply, ToolCall, WholeReply
from offbook.providers.provider import Provider, WrappedProvider
from offbook.tools.definition import ToolDef, wrap_tool
from offbook.tools.dispatch import awaiting, is_async, is_awaited, run_tool
from offbook.tools.toolbox import GivenTools, Toolbox


class FaultLog:
    """The faults that fired: `fired` lists them in order, as lines of a plan. Injectors may share one log.

    `marks` are those that the texts of faults carry, each once. Only in explorations do they carry any. `reached` are
    the sites of all calls.
    """

    def __init__(self) -> None:
        self.fired: list[PlannedFault] = []
        self.marks: list[str] = []
        self.reached = ReachedSites()
        self._lines: list[PlannedFault] = []

    def note(self, fired: PlannedFault, line: PlannedFault | None, *, marked: bool = False) -> str:
        """Add a fault that fired, and the line of the plan that made it fire, if it was not chaos.

        Returns the mark that the texts of the fault are to carry; empty unless it is `marked`.
        """
        self.fired.append(fired)
        if line is not None and line not in self._lines:
            self._lines.append(line)
        mark = mark_of(line or fired) if marked else ""
        if mark and mark not in self.marks:
            self.marks.append(mark)
        return mark

    def take_back(self, fired: PlannedFault, line: PlannedFault | None) -> None:
        """Remove a fault that has changed nothing after all."""
        self.fired.remove(fired)
        if line in self._lines:
            self._lines.remove(line)

    def missing(self, lines: Iterable[PlannedFault]) -> list[PlannedFault]:
        """Return the lines that have not fired so far."""
        return [line for line in lines if line not in self._lines]

    @contextmanager
    def explain_mismatch(self, site: Site | None = None) -> Iterator[None]:
        """Add the faults that fired at other calls to the error of a replay that has no answer."""
        try:
            yield
        except RecordingMismatchError as error:
            fired = faults_of_other_calls(self.fired, site)
            if not fired:
                raise
            raise error.replace(fired=[str(planned) for planned in fired]) from None


def refuse_crash() -> NoReturn:
    """Raise InputError: nobody would start this process again."""
    hint = "offbook explore --crash kills a program, or a workflow, and starts it again"
    raise InputError("only explore can let a run crash", source="crash", hint=hint)


class _CrashAfterTool(ToolFault, frozen=True):
    """Runs the tool, and crashes before anybody gets its result."""

    on_crash: Callable[[], NoReturn]

    def outcome(self, tool: str, mark: str = "", result: object = None) -> NoReturn:
        self.on_crash()


class FaultInjector(WrappedProvider):
    """Forwards requests to `provider`, unless the plan has a fault for them.

    `fired` lists the faults that fired, as lines of a plan: with `FaultPlan(injector.fired)` they fire again.
    `unfired()` lists the lines that did not. Injectors that share `call_numbers` count calls together, and those that
    share a `fault_log` have one list of what fired. If they are `marked`, the texts of faults carry a mark of the line.
    `on_crash` ends the process where the plan has a crash.
    """

    def __init__(
        self,
        provider: Provider,
        plan: FaultPlan,
        *,
        call_numbers: CallNumbers | None = None,
        fault_log: FaultLog | None = None,
        sink: Sink = NULL_SINK,
        clock: Clock = SYSTEM_CLOCK,
        marked: bool = False,
        on_crash: Callable[[], NoReturn] = refuse_crash,
        order: CallOrder | None = None,
    ) -> None:
        super().__init__(provider)
        self._order, self._marked, self._on_crash = order or CallOrder(), marked, on_crash
        self._plan, self._sink, self._clock = plan, sink, clock
        self._call_numbers, self._fault_log = call_numbers or CallNumbers(), fault_log or FaultLog()

    @property
    def fired(self) -> list[PlannedFault]:
        """The faults that fired, in order."""
        return self._fault_log.fired

    async def send(self, request: Request) -> Reply:
        identity = None if request.call else hash(repr(request.messages))
        site = self._call_numbers.start(
            (request.workflow, request.step_id), identity, call=request.call, attempt=request.attempt
        )
        self._fault_log.reached.add(site)
        if not self._plan.has_orders:
            return await self._send(request, site)
        call = self._order.start(site)
        try:
            reply = await self._send(request, site, call)
        except BaseException:
            self._order.end(call)
            raise
        if isinstance(reply, WholeReply):
            self._order.end(call)
            return reply
        return StreamedReply(self._order.until_end(reply, call), source=reply)

    async def _send(self, request: Request, site: Site, call: OpenCall | None = None) -> Reply:
        crash = self._plan.crash_at(site)
        if crash is not None:
            self._fault_log.note(PlannedFault(At.of(site), crash), self._plan.line_at(site))
            if crash.when == "after":
                await (await self._clean(request, site)).collect()
            self._on_crash()
        fault = self._plan.fault_at(site)
        if fault is None:
            return await self._clean(request, site)
        fired, line = PlannedFault(At.of(site), fault), self._plan.line_at(site)
        mark = self._fault_log.note(fired, line, marked=self._marked)
        self._sink.emit(
            FaultFired(request.step_id, request.model, fault.type, request.workflow, site.call, site.attempt)
        )
        hold = (
            hold_nothing if call is None else self._order.holder(call, partial(self._fault_log.take_back, fired, line))
        )
        clean = partial(self._clean, request, site)
        return await fault.apply(FaultedCall(request, clean, self._clock, self.name, mark, hold))

    def unfired(self) -> list[PlannedFault]:
        """Return the lines about models that have not fired so far: a mistyped step, a call that was never made."""
        return self._fault_log.missing(line for line in self._plan if line.at.tool is None)

    async def _clean(self, request: Request, site: Site) -> Reply:
        """Return the reply without a fault. The error of a replay that has none names the faults that fired."""
        with self._fault_log.explain_mismatch(site):
            return await self._provider.send(request)

    async def close(self) -> None:
        await self._provider.close()


def inject_tools(
    tools: GivenTools,
    plan: FaultPlan,
    *,
    fault_log: FaultLog | None = None,
    sink: Sink = NULL_SINK,
    clock: Clock = SYSTEM_CLOCK,
    marked: bool = False,
    on_crash: Callable[[], NoReturn] = refuse_crash,
    order: CallOrder | None = None,
) -> FaultyTools:
    """Wrap tools so that they fail where the plan has a fault for them.

    Args:
        tools: functions and tools, as `Toolbox` takes them. Wrap a recorder or a replay, not the other way round, so
            that recordings have no injected faults.
        plan: the lines with a `tool` apply; others are ignored.
        fault_log: lists what fired; injectors may share one.
        sink: gets an event for every fault that fires.
        marked: the texts of faults carry a mark of the line that made them fire.
        on_crash: ends the process where the plan has a crash.
        order: the calls of the run, of tools and models; injectors may share one.
    """
    return FaultyTools(
        Toolbox(tools),
        plan,
        fault_log=fault_log or FaultLog(),
        sink=sink,
        clock=clock,
        marked=marked,
        on_crash=on_crash,
        order=order or CallOrder(),
    )


class _StartedTool(Struct, frozen=True):
    """A call of a tool: its site, and the fault that fires there. Its order matters if the plan has any."""

    site: ToolSite
    fault: ToolFault | OrderFault | None = None
    fired: PlannedFault | None = None
    line: PlannedFault | None = None
    mark: str = ""
    is_ordered: bool = False


class FaultyTools(Toolbox):
    """Tools that fail where `plan` has a fault for them. The plan may be replaced.

    `fired` lists the faults that fired, as lines of a plan, and `unfired()` the lines that did not. The calls of each
    tool are counted from 1, however often it is wrapped. A call with invalid arguments does not count.

    A synchronous tool fails where it is called. A fault that waits blocks its caller, as a slow tool does, unless the
    call is made by `run_tool`, which awaits it.
    """

    def __init__(
        self,
        tools: Toolbox,
        plan: FaultPlan,
        *,
        fault_log: FaultLog,
        sink: Sink,
        clock: Clock,
        marked: bool = False,
        on_crash: Callable[[], NoReturn] = refuse_crash,
        order: CallOrder,
    ) -> None:
        self.plan, self._marked, self._on_crash, self._order = plan, marked, on_crash, order
        self._fault_log, self._sink, self._clock = fault_log, sink, clock
        self._counts: dict[str, Iterator[int]] = {}
        super().__init__([self.wrap(tool) for tool in tools.values()])

    @property
    def fired(self) -> list[PlannedFault]:
        """The faults that fired, in order."""
        return self._fault_log.fired

    def unfired(self) -> list[PlannedFault]:
        """Return the lines about tools that have not fired so far."""
        return self._fault_log.missing(line for line in self.plan if line.at.tool is not None)

    def wrap(self, tool: ToolDef) -> ToolDef:
        """Wrap a further tool like the others; its calls count with theirs."""

        def call(**arguments: Any) -> Any:
            planned = self._start(tool)
            if (planned.is_ordered or isinstance(planned.fault, OrderFault)) and is_awaited():
                return self._in_order(tool, planned, arguments)
            if planned.fault is None:
                return self._run(tool, arguments)
            return self._apply(planned, self._faulted_call(tool, arguments, planned.mark), tool)

        async def call_and_wait(**arguments: Any) -> Any:
            return await self._in_order(tool, self._start(tool), arguments)

        return wrap_tool(tool, call_and_wait if is_async(tool.callable) else call, timeout_s=tool.timeout_s)

    def _start(self, tool: ToolDef) -> _StartedTool:
        """Count a call, and find the fault that fires there, if any."""
        site = ToolSite(tool.name, next(self._counts.setdefault(tool.name, count(1))))
        self._fault_log.reached.add(site)
        crash = self.plan.crash_at(site)
        if crash is not None:
            self._fault_log.note(PlannedFault(At.of(site), crash), self.plan.line_at(site))
            if crash.when == "before":
                self._on_crash()
            return _StartedTool(site, _CrashAfterTool(self._on_crash), is_ordered=self.plan.has_orders)
        fault = self.plan.tool_fault_at(site)
        if fault is None or isinstance(fault, DeliveredTwice):  # only an MCP server can deliver an answer twice
            return _StartedTool(site, is_ordered=self.plan.has_orders)
        fired, line = PlannedFault(At.of(site), fault), self.plan.line_at(site)
        mark = self._fault_log.note(fired, line, marked=self._marked)
        self._sink.emit(FaultFired(None, "", fault.type, call=site.call, tool=site.tool))
        return _StartedTool(site, fault, fired, line, mark, self.plan.has_orders)

    async def _in_order(self, tool: ToolDef, started: _StartedTool, arguments: JsonObject) -> Any:
        """Return the outcome of a call that can be awaited, and note when it starts and ends if that is planned."""
        call = self._faulted_call(tool, arguments, started.mark)
        fault = started.fault
        if not started.is_ordered:
            return await (call.run() if fault is None else fault.apply_to_tool(call))
        with self._order.under_way(started.site) as open_call:
            if fault is None:
                return await call.run()
            hold = self._order.holder(open_call, partial(self._take_back, started))
            return await fault.apply_to_tool(replace(call, hold=hold))

    def _take_back(self, started: _StartedTool) -> None:
        assert started.fired is not None
        self._fault_log.take_back(started.fired, started.line)

    def _apply(self, started: _StartedTool, call: FaultedToolCall, tool: ToolDef) -> Any:
        """Return the outcome of a call of a synchronous tool, or an awaitable of it if the tool itself returns one."""
        fault = started.fault
        assert fault is not None
        if fault.wait_s and is_awaited():
            return fault.apply_to_tool(call)
        _block_s(fault.wait_s)
        value = self._run(tool, call.arguments) if fault.runs_tool else None
        if isinstance(value, Awaitable):
            return fault.apply_to_tool(replace(call, run=lambda: value))
        if isinstance(fault, OrderFault):  # nothing else can happen while its caller is blocked
            self._take_back(started)
        return fault.outcome(call.name, call.mark, value)

    def _faulted_call(self, tool: ToolDef, arguments: JsonObject, mark: str) -> FaultedToolCall:
        run = partial(self._run_to_end, tool, arguments)
        return FaultedToolCall(tool.name, arguments, run, self._clock, mark)

    def _run(self, tool: ToolDef, arguments: JsonObject) -> Any:
        with self._fault_log.explain_mismatch(), awaiting(awaits=False):
            value = tool.callable(**tool.bind(arguments))
        return self._awaited(value) if isinstance(value, Awaitable) else value

    async def _awaited(self, value: Awaitable[Any]) -> Any:
        with self._fault_log.explain_mismatch():
            return await value

    async def _run_to_end(self, tool: ToolDef, arguments: JsonObject) -> Any:
        if tool.timeout_s is None:
            value = self._run(tool, arguments)
            return await value if isinstance(value, Awaitable) else value
        with self._fault_log.explain_mismatch():
            outcome = await run_tool(tool, ToolCall(tool.name, arguments))
        if outcome.error is not None:
            raise outcome.error
        return outcome.value


def _block_s(delay_s: float) -> None:
    """Wait without an await, in virtual time if the loop of this thread has it."""
    block = getattr(running_loop(), "block_s", time.sleep)
    if delay_s > 0:
        block(delay_s)
