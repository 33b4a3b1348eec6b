"""Injects the faults of a plan into calls of models and tools of this process."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, NoReturn

from msgspec.structs import replace

from offbook.clock import SYSTEM_CLOCK, Clock, running_loop
from offbook.errors import InputError
from offbook.events import NULL_SINK, FaultFired, Sink
from offbook.faults.fault import FaultedCall, hold_nothing
from offbook.faults.log import FaultLog
from offbook.faults.order import CallOrder, DeliveredTwice, OpenCall, OrderFault
from offbook.faults.plan import FaultPlan
from offbook.faults.site import Site
from offbook.faults.tools import EndedCall, FaultedToolCall, ToolFault
from offbook.messages import JsonObject, Reply, Request, StreamedReply, ToolCall, WholeReply
from offbook.providers.provider import Provider, WrappedProvider
from offbook.recording.format.exchange import ToolExchange
from offbook.recording.stores.store import ExchangeIndex
from offbook.session.log import Faulted, Log
from offbook.session.numbers import CallNumbers
from offbook.session.session import Session, StruckCall
from offbook.tools.definition import ToolDef, is_async, wrap_tool
from offbook.tools.dispatch import awaiting, is_awaited, run_tool
from offbook.tools.toolbox import GivenTools, Toolbox


def refuse_crash() -> NoReturn:
    """Raise InputError, because nothing would restart this process."""
    hint = "offbook explore --crash kills a program, or a workflow, and starts it again"
    raise InputError("only explore can let a run crash", source="crash", hint=hint)


class _CrashAfterTool(ToolFault, frozen=True):
    """Runs the tool, and crashes before its result is returned."""

    on_crash: Callable[[], NoReturn]

    def outcome(self, call: EndedCall) -> NoReturn:
        self.on_crash()


class FaultInjector(WrappedProvider, Faulted):
    """Forwards requests to `provider`, unless the plan has a fault for them.

    `fired` lists the fired faults, as lines of a plan: `FaultPlan(injector.fired)` fires them again. `unfired()` lists
    the other lines. Injectors that share `call_numbers` count calls together, and those that share a `fault_log` have
    one list of fired faults. If they are `marked`, the texts of faults carry a mark of the line. `on_crash` ends the
    process at a planned crash.
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
        self._session = Session(
            plan, numbers=call_numbers, fault_log=fault_log, order=order, marked=marked, now_s=clock.monotonic_s
        )
        self._on_crash, self._sink, self._clock = on_crash, sink, clock

    @property
    def log(self) -> Log:
        session = self._session
        return Log(faults=[session.faults], plan=[line for line in session.plan if line.at.tool is None])

    async def send(self, request: Request) -> Reply:
        session, identity = self._session, None if request.call else hash(repr(request.messages))
        site = session.numbers.start(
            (request.workflow, request.step_id), identity, call=request.call, attempt=request.attempt
        )
        if not session.plan.has_orders:
            return await self._send(request, site)
        call = session.order.start(site)
        try:
            reply = await self._send(request, site, call)
        except BaseException:
            session.order.end(call)
            raise
        if isinstance(reply, WholeReply):
            session.order.end(call)
            return reply
        return StreamedReply(session.order.until_end(reply, call), source=reply)

    async def _send(self, request: Request, site: Site, call: OpenCall | None = None) -> Reply:
        session = self._session
        struck = session.strike(site)
        if struck.crash is not None:
            if struck.crash.when == "after":
                await (await self._clean(request, struck)).collect()
            self._on_crash()
        fault = struck.model_fault
        if fault is None:
            return await self._clean(request, struck)
        self._sink.emit(
            FaultFired(request.step_id, request.model, fault.type, request.workflow, site.call, site.attempt)
        )
        forget = partial(session.take_back, site, fault)
        hold = hold_nothing if call is None else session.order.holder(call, forget)
        clean = partial(self._clean, request, struck)
        return await fault.apply(FaultedCall(request, clean, self._clock, self.name, struck.mark, hold))

    def follow(self, plan: FaultPlan) -> None:
        """Use this plan from now on. Calls are counted on."""
        self._session.follow(plan)

    async def _clean(self, request: Request, struck: StruckCall) -> Reply:
        """Return the reply without a fault."""
        with self._session.asking(struck):
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
    recorded: ExchangeIndex[ToolExchange] | None = None,
) -> FaultyTools:
    """Wrap tools so that they fail where the plan has a fault for them.

    Args:
        tools: functions and tools, as `Toolbox` takes them. Wrap a recorder or a replay, not the other way round, so
            that recordings have no injected faults.
        plan: the lines with a `tool` apply; others are ignored.
        fault_log: lists fired faults; injectors may share one.
        sink: gets an event for every fired fault.
        marked: the texts of faults carry a mark of their line.
        on_crash: ends the process at a planned crash.
        order: the calls of the run, of tools and models; injectors may share one.
        recorded: the recorded calls of tools, from which lies take their values; by default those of replayed `tools`.
    """
    recorded = getattr(tools, "recorded_calls", recorded)
    session = Session(
        plan, fault_log=fault_log, order=order, marked=marked, recorded_tools=recorded, now_s=clock.monotonic_s
    )
    return FaultyTools(Toolbox(tools), session, sink=sink, clock=clock, on_crash=on_crash)


class FaultyTools(Toolbox, Faulted):
    """Tools that fail where a session's plan has a fault for them. The session may `follow` another plan.

    `fired` lists the fired faults, as lines of a plan, and `unfired()` the other lines. Each tool's calls are counted
    from 1, however often it is wrapped. A call with invalid arguments does not count.

    A synchronous tool fails where it is called. A fault that waits blocks its caller, like a slow tool, unless
    `run_tool` makes the call and awaits it.
    """

    def __init__(
        self,
        tools: Toolbox,
        session: Session,
        *,
        sink: Sink,
        clock: Clock,
        on_crash: Callable[[], NoReturn] = refuse_crash,
    ) -> None:
        self._session, self._on_crash, self._sink, self._clock = session, on_crash, sink, clock
        super().__init__([self.wrap(tool) for tool in tools.values()])

    @property
    def log(self) -> Log:
        session = self._session
        return Log(faults=[session.faults], plan=[line for line in session.plan if line.at.tool is not None])

    def follow(self, plan: FaultPlan) -> None:
        """Use this plan from now on. Calls are counted on."""
        self._session.follow(plan)

    def wrap(self, tool: ToolDef) -> ToolDef:
        """Wrap a further tool; its calls count with the others."""
        is_coroutine = is_async(tool.callable)

        def call(**arguments: Any) -> Any:
            struck, fault = self._start(tool)
            waits = (
                self._session.plan.has_orders or isinstance(fault, OrderFault) or (fault is not None and fault.wait_s)
            )
            if is_coroutine or (waits and is_awaited()):
                return self._in_order(tool, struck, fault, arguments)
            if fault is None:
                return self._run(tool, struck, arguments)
            _block_s(fault.wait_s)
            value = self._run(tool, struck, arguments) if fault.runs_tool else None
            if isinstance(value, Awaitable):
                return fault.apply_to_tool(self._faulted(tool, struck, arguments, lambda: value))
            if isinstance(fault, OrderFault):  # nothing else can happen while its caller is blocked
                self._take_back(struck)
            return self._session.spoil(struck.site, fault, EndedCall(tool.name, arguments, value, struck.mark))

        return wrap_tool(tool, call, timeout_s=tool.timeout_s)

    def _start(self, tool: ToolDef) -> tuple[StruckCall, ToolFault | OrderFault | None]:
        """Count a call, and return it with its fault, if any."""
        struck = self._session.strike(self._session.numbers.start_tool(tool.name))
        if struck.crash is not None:
            if struck.crash.when == "before":
                self._on_crash()
            return struck, _CrashAfterTool(self._on_crash)
        fault = struck.tool_fault
        if isinstance(fault, DeliveredTwice):  # only an MCP server can deliver an answer twice
            self._session.take_back(struck.site, fault)
            return struck, None
        if fault is not None:
            self._sink.emit(FaultFired(None, "", fault.type, call=struck.site.call, tool=tool.name))
        return struck, fault

    async def _in_order(
        self, tool: ToolDef, struck: StruckCall, fault: ToolFault | OrderFault | None, arguments: JsonObject
    ) -> Any:
        """Return the outcome of an awaitable call, and note its start and end if the plan needs them."""
        session, run = self._session, partial(self._run_to_end, tool, struck, arguments)
        call = self._faulted(tool, struck, arguments, run)
        if not session.plan.has_orders:
            return await (run() if fault is None else fault.apply_to_tool(call))
        with session.order.under_way(struck.site) as open_call:
            if fault is None:
                return await run()
            hold = session.order.holder(open_call, partial(self._take_back, struck))
            return await fault.apply_to_tool(replace(call, hold=hold))

    def _faulted(
        self, tool: ToolDef, struck: StruckCall, arguments: JsonObject, run: Callable[[], Awaitable[object]]
    ) -> FaultedToolCall:
        spoil = partial(self._session.spoil, struck.site)
        return FaultedToolCall(tool.name, arguments, run, self._clock, struck.mark, spoil=spoil)

    def _take_back(self, struck: StruckCall) -> None:
        assert struck.tool_fault is not None
        self._session.take_back(struck.site, struck.tool_fault)

    def _run(self, tool: ToolDef, struck: StruckCall, arguments: JsonObject) -> Any:
        with self._session.asking(struck), awaiting(awaits=False):
            value = tool.callable(**tool.bind(arguments))
        if isinstance(value, Awaitable):
            return self._awaited(value, tool, struck, arguments)
        self._session.note_answer(tool.name, arguments, value)
        return value

    async def _awaited(self, value: Awaitable[Any], tool: ToolDef, struck: StruckCall, arguments: JsonObject) -> Any:
        with self._session.asking(struck):
            result = await value
        self._session.note_answer(tool.name, arguments, result)
        return result

    async def _run_to_end(self, tool: ToolDef, struck: StruckCall, arguments: JsonObject) -> Any:
        if tool.timeout_s is None:
            value = self._run(tool, struck, arguments)
            return await value if isinstance(value, Awaitable) else value
        with self._session.asking(struck):
            outcome = await run_tool(tool, ToolCall(tool.name, arguments))
        if outcome.error is not None:
            raise outcome.error
        self._session.note_answer(tool.name, arguments, outcome.value)
        return outcome.value


def _block_s(delay_s: float) -> None:
    """Wait without an await, in virtual time if the loop of this thread has it."""
    block = getattr(running_loop(), "block_s", time.sleep)
    if delay_s > 0:
        block(delay_s)
