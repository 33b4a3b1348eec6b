"""A session finds the planned fault of each call of a run, notes fired faults, and keeps answers in order."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from functools import cached_property, partial
from typing import cast

from msgspec import UNSET, Struct
from msgspec.structs import replace

from offbook.clock import SYSTEM_CLOCK
from offbook.errors import RecordingMismatchError
from offbook.faults import At, Crash, FaultPlan, PlannedFault, ToolSite
from offbook.faults.catalog import AnyFault, AnyOrderFault, AnyPlannedFault, AnyToolFault
from offbook.faults.log import FaultLog
from offbook.faults.order import CallOrder, HeldUntil, OpenCall, OrderFault, Wait, wait_on_loop
from offbook.faults.site import Site
from offbook.faults.tools import EndedCall, KnownAnswer, ToolFault
from offbook.messages import JsonObject
from offbook.recording.format.exchange import ToolExchange
from offbook.recording.stores.store import ExchangeIndex
from offbook.session.log import Faulted, Log
from offbook.session.numbers import CallNumbers

NO_FAULTS: FaultPlan = FaultPlan()
"""The plan of sessions that never have faults. They do not remember which sites they have reached."""


# In this process, a fault is injected by a wrapper around whatever holds the source of the answer, a provider or a
# function, and there may be other wrappers between the two. So the source is told by the context. It compares the name:
# a tool whose result is lost may itself call models and other tools, which do get their answers.
lost_answer: ContextVar[str | None] = ContextVar("lost_answer", default=None)
"""The tool whose result is lost on its way to the caller, or "" for a model's answer."""


class StruckCall(Struct, frozen=True, gc=False):
    """A call at its site, with its planned fault, whose texts carry the `mark`, or its crash.

    Model calls have model faults, and tool calls tool faults.
    """

    site: Site | ToolSite
    model_fault: AnyFault | AnyOrderFault | None = None
    tool_fault: AnyToolFault | AnyOrderFault | None = None
    mark: str = ""
    crash: Crash | None = None


class Session(Faulted):
    """The calls of one run: `numbers` assigns calls and attempts, `faults` are the fired faults of the plan.

    All calls of one run share these over every face: a provider, tools, HTTP, WebSocket or MCP. In an exploration they
    are `marked`: the texts of faults carry marks. Held answers `wait` on the run's clock. Lies of tools take their
    values from `recorded_tools`, and from earlier answers of the run.
    """

    def __init__(
        self,
        plan: FaultPlan = NO_FAULTS,
        *,
        numbers: CallNumbers | None = None,
        fault_log: FaultLog | None = None,
        order: CallOrder | None = None,
        marked: bool = False,
        wait: Wait = wait_on_loop,
        recorded_tools: ExchangeIndex[ToolExchange] | None = None,
        now_s: Callable[[], float] = SYSTEM_CLOCK.monotonic_s,
    ) -> None:
        self.plan, self.numbers, self.faults = plan, numbers or CallNumbers(), fault_log or FaultLog()
        self._marked, self._wait, self._shares_order = marked, wait, order is not None
        if order is not None:
            self.order = order
        self.recorded_tools, self._now_s = recorded_tools, now_s
        self._answers: dict[str, list[KnownAnswer]] = {}

    @property
    def log(self) -> Log:
        return Log(faults=[self.faults], plan=self.plan)

    def strike(self, site: Site | ToolSite) -> StruckCall:
        """Find the planned fault or crash of a call, and note that it fires."""
        plan = self.plan
        if plan is NO_FAULTS and not self._marked:
            return StruckCall(site)
        self.faults.reached.add(site)
        if plan.has_times:
            plan = plan.during(self.faults.elapsed_s(self._now_s()))
        crash = plan.crash_at(site)
        if crash is not None:
            self._note_fired(site, crash)
            return StruckCall(site, crash=crash)
        if isinstance(site, ToolSite):
            tool_fault = plan.tool_fault_at(site)
            return StruckCall(site, tool_fault=tool_fault, mark=self._note_fired(site, tool_fault))
        fault = plan.fault_at(site)
        return StruckCall(site, fault, mark=self._note_fired(site, fault))

    @contextmanager
    def asking(self, struck: StruckCall) -> Iterator[None]:
        """Let the source of a call in this process answer it now, without its fault.

        A missing answer's error names the fired faults. If the fault loses the answer, it stays for the next attempt.
        """
        site, fault = struck.site, struck.model_fault or struck.tool_fault
        tool, own = (site.tool, None) if isinstance(site, ToolSite) else ("", site)
        token = lost_answer.set(tool if fault is not None and fault.breaks_response else None)
        try:
            yield
        except RecordingMismatchError as error:
            self.faults.explain(error, own)
            raise
        finally:
            lost_answer.reset(token)

    def note_answer(self, tool: str, arguments: JsonObject, result: object) -> None:
        """Keep a tool's own answer, if a later call may get it as a lie."""
        if self.plan.has_lies:
            self._answers.setdefault(tool, []).append(KnownAnswer(arguments, result, is_of_run=True))

    def spoil(self, site: Site | ToolSite, fault: ToolFault | OrderFault, call: EndedCall) -> object:
        """Return what the caller of a tool gets. A fault that has no lie to tell has not fired.

        Raises:
            Exception: the error of the fault.
        """
        if "lies" not in fault.traits:
            return fault.outcome(call)
        told = fault.outcome(replace(call, known=self.known_answers(call.tool)))
        if told is call.result and not (isinstance(fault, ToolFault) and fault.withholds_effect):
            self.take_back(site, cast("AnyToolFault", fault))
        return told

    def known_answers(self, tool: str) -> list[KnownAnswer]:
        """Return the recorded answers of a tool, then those of this run."""
        recorded = [] if self.recorded_tools is None else [each for each in self.recorded_tools if each.key == tool]
        answers = [each.exchange for each in recorded if each.exchange.error is None and each.exchange.when is None]
        return [
            *(
                KnownAnswer({} if each.arguments is UNSET else each.arguments, each.answer)
                for each in answers
                if each.result is not UNSET
            ),
            *self._answers.get(tool, ()),
        ]

    def crash_after_effects(self, tools: Iterable[str]) -> bool:
        """Count a program's reported effects by tool, and return whether it crashes after one."""
        sites = [self.numbers.start_effect(tool) for tool in tools]
        crashes = [(site, crash) for site in sites if (crash := self.plan.crash_at(site)) is not None]
        for site, crash in crashes:
            self._note_fired(site, crash)
        return bool(crashes)

    def _note_fired(self, site: Site | ToolSite, fault: AnyPlannedFault | None) -> str:
        if fault is None:
            return ""
        fired = PlannedFault(At.of(site), fault)
        line = self._line_of(site, fault)
        return self.faults.note(fired, line, marked=self._marked and not isinstance(fault, Crash))

    def take_back(self, site: Site | ToolSite, fault: AnyPlannedFault) -> None:
        """Forget a fault without effect."""
        self.faults.take_back(PlannedFault(At.of(site), fault), self._line_of(site, fault))

    def _line_of(self, site: Site | ToolSite, fault: AnyPlannedFault) -> PlannedFault | None:
        """Return the line of the plan by which a fault has fired, or None for chaos."""
        return next((line for line in self.plan if line.fault == fault and line.at.covers(site)), None)

    def follow(self, plan: FaultPlan) -> None:
        """Use this plan from now on."""
        self.plan = plan

    @cached_property
    def order(self) -> CallOrder:
        """The calls under way, needed only if the plan `has_orders`."""
        return CallOrder(self._wait)

    @property
    def has_orders(self) -> bool:
        """Whether the plan holds answers until other calls have ended, so calls are answered `in_order`."""
        return self._shares_order or self.plan.has_orders

    def share_order(self, order: CallOrder) -> None:
        """Note calls under way in `order` for any plan, because calls elsewhere may wait for them."""
        self.order, self._shares_order = order, True

    async def hold(self, call: OpenCall, fault: AnyPlannedFault | None) -> None:
        """Hold the answer to a call under way as long as its fault says."""
        if isinstance(fault, HeldUntil):
            await self.order.holder(call, partial(self.take_back, call.place, fault))(fault.target)

    @asynccontextmanager
    async def in_order(self, site: Site | ToolSite, fault: AnyPlannedFault | None) -> AsyncIterator[None]:
        """Hold the answer to a call as long as its fault says. It is under way until the block ends."""
        call = self.order.start(site)
        try:
            await self.hold(call, fault)
            yield
        finally:
            self.order.end(call)
