"""The calls of a session: numbers, attempts, planned faults and outcomes; and totals over many sessions."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import cached_property, partial
from typing import TYPE_CHECKING, Literal, Protocol

from msgspec import Struct

from offbook.errors import MismatchKind
from offbook.events import CallContent
from offbook.faults import (
    AnyFault,
    AnyPlannedFault,
    AnyToolFault,
    At,
    Crash,
    FaultPlan,
    PlannedFault,
    ToolSite,
    mark_of,
)
from offbook.faults.catalog import AnyOrderFault
from offbook.faults.order import CallOrder, HeldUntil, Wait, wait_on_loop
from offbook.faults.site import CallNumbers, ReachedSites, Site
from offbook.messages import Request
from offbook.recording.format.exchange import Exchange, RecordedToolCall
from offbook.wire.request import HttpRequest, ParsedRequest

if TYPE_CHECKING:
    from offbook.wire.replay_source import ReplaySource
    from offbook.wire.response import HttpResponse
    from offbook.wire.session import WireSession


class CallAttempt(Struct, frozen=True, gc=False):
    """One attempt of a call. `number` counts the requests of the session; `fault` is to be applied to this one.

    `call` counts the model calls of the session, and is 0 for other requests; `attempt_number` counts the attempts of
    one call. `site` is where a fault plan finds it, if it is a model call. In an exploration, the texts of the fault
    carry the `mark`.
    """

    parsed: ParsedRequest
    number: int
    attempt_number: int
    step_id: str | None = None
    fault: AnyFault | AnyOrderFault | None = None
    site: Site | None = None
    call: int = 0
    mark: str = ""
    crash: Crash | None = None

    def content(self, exchange: Exchange | None) -> CallContent | None:
        """Return the messages of a model call that the exchange answers; None for other requests."""
        request = self.parsed.request
        if request is None:
            return None
        is_answered = exchange is not None and exchange.fault is None
        response = exchange.response(model=request.model, provider="") if exchange and is_answered else None
        return CallContent(request, response, self.step_id, call=self.number, attempt=self.attempt_number)


class ToolAttempt(Struct, frozen=True, gc=False):
    """A tool call over MCP: its number among the requests of the session, its site, and the fault that applies."""

    number: int
    site: ToolSite
    fault: AnyToolFault | AnyOrderFault | None = None
    mark: str = ""
    crash: Crash | None = None


NO_FAULTS = FaultPlan()
"""The plan of sessions that never have faults. It makes CallCounter count roughly: exact sites take longer to find than
answers."""

STEP_HEADER = "x-offbook-step"
_FAULTED_OPERATIONS = ("generate", "embed")


class CallCounter:
    """Numbers calls as they arrive, and finds the planned fault of each.

    Faults apply to model calls and embeddings. A repeated request whose last answer failed is the next attempt, even if
    its client numbers its attempts from 1 again: an agent may retry what its SDK has given up. With `counts_all`, model
    calls are counted exactly even without a plan. With `marked`, the texts of faults carry marks; `marks` are those so
    far. Held answers `wait` on the clock of the session.
    """

    def __init__(
        self, plan: FaultPlan, *, counts_all: bool = False, marked: bool = False, wait: Wait = wait_on_loop
    ) -> None:
        self.fired: list[PlannedFault] = []
        self.marks: list[str] = []
        self.fired_lines: list[PlannedFault] = []
        self.reached = ReachedSites()
        self.total = self._calls = 0
        self._counts_all, self._marked, self._wait, self._shares_order = counts_all, marked, wait, False
        self.follow(plan)
        self._call_numbers = CallNumbers()
        self._failed_attempts: dict[str, int] = {}
        self._tool_calls: Counter[str] = Counter()
        self._effects: Counter[str] = Counter()

    def start(self, request: HttpRequest, parsed: ParsedRequest) -> CallAttempt:
        """Number a call, and find its fault."""
        self.total += 1
        step_id = request.headers.get(STEP_HEADER) or None
        is_model_call = parsed.route.operation in _FAULTED_OPERATIONS
        if is_model_call and self.is_exact:
            site = self._site(parsed, request.attempt, step_id)
            self.reached.add(site)
            fault, mark = self._fault_at(site)
            crash = self._crash_at(site)
            return CallAttempt(parsed, self.total, site.attempt, step_id, fault, site, site.overall, mark, crash)
        attempt_number = max(request.attempt or 0, self._failed_attempts.get(parsed.request_hash, 0) + 1)
        if not is_model_call:
            return CallAttempt(parsed, self.total, attempt_number, step_id)
        self._calls += attempt_number == 1 or not self._calls
        return CallAttempt(parsed, self.total, attempt_number, step_id, call=self._calls)

    def start_tool_call(self, tool: str) -> ToolAttempt:
        """Number a tool call, and find its fault."""
        self.total += 1
        self._tool_calls[tool] += 1
        site = ToolSite(tool, self._tool_calls[tool])
        self.reached.add(site)
        fault = self._plan.tool_fault_at(site)
        mark = "" if fault is None else self._note_fired(site, fault)
        return ToolAttempt(self.total, site, fault, mark, self._crash_at(site))

    def crash_after_effects(self, tools: Iterable[str]) -> bool:
        """Count effects that the program reports, by their tools, and return whether it is to crash after one."""
        has_crashed = False
        for tool in tools:
            self._effects[tool] += 1
            has_crashed |= self._crash_at(ToolSite(tool, self._effects[tool])) is not None
        return has_crashed

    def finish(self, attempt: CallAttempt, *, failed: bool) -> None:
        """Remember whether the answer to the call failed."""
        if attempt.site is not None:
            self._call_numbers.finish(attempt.site, attempt.parsed.request_hash, failed=failed)
        elif failed:
            self._failed_attempts[attempt.parsed.request_hash] = attempt.attempt_number
        elif self._failed_attempts:
            self._failed_attempts.pop(attempt.parsed.request_hash, None)

    @cached_property
    def order(self) -> CallOrder:
        """Which calls are under way; nobody needs it unless the plan `has_orders`."""
        return CallOrder(self._wait)

    @property
    def has_orders(self) -> bool:
        """Whether the plan has faults of order, so that calls have to be answered `in_order`."""
        return self._shares_order or self._plan.has_orders

    def share_order(self, order: CallOrder) -> None:
        """Note in `order` which calls are under way, whatever the plan: calls elsewhere may wait for them."""
        self.order, self._shares_order = order, True

    @asynccontextmanager
    async def in_order(self, site: Site | ToolSite, fault: AnyPlannedFault | None) -> AsyncIterator[None]:
        """Hold the answer to a call as long as its fault says, and note that it is under way until the block ends."""
        call = self.order.start(site)
        try:
            if isinstance(fault, HeldUntil):
                await self.order.holder(call, partial(self._forget, site, fault))(fault.target)
            yield
        finally:
            self.order.end(call)

    def follow(self, plan: FaultPlan) -> None:
        """Use this plan from now on."""
        self._plan = plan
        self.is_exact = self._counts_all or plan is not NO_FAULTS

    def unfired(self) -> list[PlannedFault]:
        """Return the lines of the plan that have not fired yet."""
        return [planned for planned in self._plan if planned not in self.fired_lines]

    def _site(self, parsed: ParsedRequest, client_attempt: int | None, step_id: str | None) -> Site:
        """Return the site of a call; `client_attempt` is the number of the attempt that its client sends."""
        numbers, step, identity = self._call_numbers, ("", step_id), parsed.request_hash
        is_repeated = (client_attempt or 0) <= numbers.next_attempt(step, identity)
        return numbers.start(step, identity, attempt=None if is_repeated else client_attempt)

    def _fault_at(self, site: Site) -> tuple[AnyFault | AnyOrderFault | None, str]:
        """Return the fault that fires at the site, if any, with its mark."""
        fault = self._plan.fault_at(site)
        if fault is None:
            return None, ""
        return fault, self._note_fired(site, fault)

    def _crash_at(self, site: Site | ToolSite) -> Crash | None:
        crash = self._plan.crash_at(site)
        if crash is not None:
            self._note_fired(site, crash)
        return crash

    def _note_fired(self, site: Site | ToolSite, fault: AnyPlannedFault) -> str:
        """Note that a fault fires at a site, and return its mark."""
        fired, planned = PlannedFault(At.of(site), fault), self._plan.line_at(site)
        self.fired.append(fired)
        if planned is not None and planned not in self.fired_lines:
            self.fired_lines.append(planned)
        return self._mark(planned or fired)

    def take_back(self, attempt: CallAttempt) -> None:
        """Forget the fault of a call, which has changed nothing after all."""
        assert attempt.site is not None
        assert attempt.fault is not None
        self._forget(attempt.site, attempt.fault)

    def _forget(self, site: Site | ToolSite, fault: AnyPlannedFault) -> None:
        planned = self._plan.line_at(site)
        self.fired.remove(PlannedFault(At.of(site), fault))
        if planned in self.fired_lines:
            self.fired_lines.remove(planned)

    def _mark(self, line: PlannedFault) -> str:
        mark = mark_of(line) if self._marked else ""
        if mark and mark not in self.marks:
            self.marks.append(mark)
        return mark


WireOutcome = Literal["served", "fault", "default", "continued", "synthetic", "recorded", "passed", "missed", "refused"]
"""`served` from the recording; `fault` if one fired; `default` response where the recording has nothing; `continued` by
a continuation in an exploration; `synthetic` (an embedding, a list of models); `recorded` from upstream; `passed` on
from there without being recorded (too large, or the client left before anything arrived); `missed`; or `refused`,
because the request cannot be answered, or its answer could not be recorded."""


class CallOutcome(Struct, frozen=True, gc=False):
    """The outcome of a call to a model or an MCP server, with the `key` of the entry that answered, or was recorded.

    `failure` says how the real one failed, `unrecorded` why its answer could not be recorded, and `cost_usd` what that
    answer has cost. `tool_calls` are those of an answer that the client got.
    """

    type: WireOutcome
    key: str | None = None
    failure: str = ""
    unrecorded: str = ""
    cost_usd: float = 0.0
    tool_calls: list[RecordedToolCall] | None = None

    @property
    def problem(self) -> str:
        """What the list of calls says about a call that failed or was not recorded."""
        return f"not recorded: {self.unrecorded}" if self.unrecorded else self.failure


class WireCall(Struct, frozen=True, gc=False):
    """One attempt of a call over HTTP, and its outcome.

    `number` counts all requests of the session from 1. `call` counts its model calls, as fault plans do, and is 0 for
    other requests; `attempt` counts the attempts of one call. `status` is None if the client got no response; `key` is
    the entry that answered, or was recorded. `failure` says how the real API failed, or why its answer could not be
    recorded. `request` is the model request.
    """

    number: int
    session: str
    vendor: str
    place: str
    outcome: WireOutcome
    model: str = ""
    status: int | None = None
    key: str | None = None
    fault: str | None = None
    attempt: int = 1
    request: Request | None = None
    method: str = "POST"
    call: int = 0
    failure: str = ""


def ignore_call(call: WireCall) -> None:
    """Ignore a call."""


def ignore_request(request: HttpRequest) -> None:
    """Ignore a request."""


class Miss(Struct, frozen=True, gc=False):
    """A call that the recording has no answer for. `text` is the whole message: the nearest entry, and the diff.

    `call`, `attempt` and `number` are those of its WireCall. `is_after_fault` if a fault fired in the session before.
    """

    call: int
    session: str
    place: str
    kind: MismatchKind
    key: str | None
    text: str
    number: int
    attempt: int = 1
    method: str = "POST"
    is_after_fault: bool = False

    def __str__(self) -> str:
        return self.text


MAX_CALLS = 10_000
"""How many calls and faults are remembered: the latest."""

MAX_NAMED_SESSIONS = 2
"""How many sessions of a recording are remembered by name: enough to know whether there was only one."""


class RecordingUse(Struct, frozen=True):
    """What sessions used of one recording: the names of the first sessions, and the ids of the exchanges served."""

    sessions: set[str]
    ids: set[int]


class SessionTotals:
    """Counts over all sessions that had a call.

    `calls` counts calls, `cost_usd` is what the answers of real APIs have cost. `outcomes` counts the outcomes of all
    attempts, `failures` the failures of real APIs that were recorded, by their descriptions, and `unrecorded` the calls
    that could not be recorded, by the reasons. `fired` are the latest faults, `fired_lines` the lines of plans that
    fired, and `reached` the sites of the calls.
    """

    def __init__(self, sessions: Iterable[WireSession] = ()) -> None:
        self.calls = 0
        self.cost_usd = 0.0
        self.outcomes: Counter[WireOutcome] = Counter()
        self.failures: Counter[str] = Counter()
        self.unrecorded: Counter[str] = Counter()
        self.fired: deque[PlannedFault] = deque(maxlen=MAX_CALLS)
        self.fired_lines: list[PlannedFault] = []
        self.reached = ReachedSites()
        self.uses: dict[ReplaySource, RecordingUse] = {}
        for session in sessions:
            self.add(session)

    @property
    def tries(self) -> int:
        """The number of attempts of all calls."""
        return self.outcomes.total()

    def add(self, session: WireSession) -> None:
        """Add a session, which must be added only once."""
        if not session.outcomes:
            return
        self.calls += session.call_count
        self.cost_usd += session.cost_usd
        self.outcomes.update(session.outcomes)
        self.failures.update(session.failures)
        self.unrecorded.update(session.unrecorded)
        self.fired.extend(session.fired)
        self.fired_lines += [line for line in session.fired_lines if line not in self.fired_lines]
        self.reached.update(session.counter.reached)
        if session.replay is not None:
            use = self.uses.setdefault(session.replay.source, RecordingUse(set(), set()))
            use.ids.update(session.replay.used_ids)
            if len(use.sessions) < MAX_NAMED_SESSIONS:
                use.sessions.add(session.name)

    def plus(self, sessions: Iterable[WireSession]) -> SessionTotals:
        """Return the totals of these and further sessions."""
        totals = SessionTotals(sessions)
        totals.calls += self.calls
        totals.cost_usd += self.cost_usd
        totals.outcomes.update(self.outcomes)
        totals.failures.update(self.failures)
        totals.unrecorded.update(self.unrecorded)
        totals.fired.extendleft(reversed(self.fired))
        totals.fired_lines += [line for line in self.fired_lines if line not in totals.fired_lines]
        totals.reached.update(self.reached)
        for source, use in self.uses.items():
            total = totals.uses.setdefault(source, RecordingUse(set(), set()))
            total.ids.update(use.ids)
            total.sessions.update(use.sessions)
        return totals


MAX_REQUEST_BYTES = 64 * 1024 * 1024
"""How much of model requests is remembered, over all sessions: the latest. Calls before them are, without requests."""


class RequestMemory:
    """Limits what the sessions of a backend remember of model requests: the oldest are forgotten first."""

    def __init__(self, limit_bytes: int = MAX_REQUEST_BYTES) -> None:
        self._limit_bytes, self._bytes = limit_bytes, 0
        self._kept: deque[tuple[WireSession, int]] = deque()

    def keep(self, session: WireSession, size: int) -> None:
        """Keep the request of the latest call of a session, of `size` bytes."""
        self._kept.append((session, size))
        self._bytes += size
        while self._bytes > self._limit_bytes and len(self._kept) > 1:
            oldest, size = self._kept.popleft()
            self._bytes -= size
            oldest.forget_request()

    def forget(self, session: WireSession) -> None:
        """Stop counting the requests of a session."""
        if any(kept is session for kept, _ in self._kept):
            self._kept = deque(kept for kept in self._kept if kept[0] is not session)
            self._bytes = sum(size for _, size in self._kept)


class CallObserver(Protocol):
    """Observes the calls of a run, on the server's thread."""

    def answered(self, attempt: CallAttempt, answer: HttpResponse, outcome: WireOutcome) -> None:
        """Called when the session has answered a call. Sending the answer may still take long."""
        ...

    def delivered(self, attempt: CallAttempt) -> None:
        """Called when an answer that a fault delayed was sent completely, and the client was still there."""
        ...

    def left(self, attempt: CallAttempt) -> None:
        """Called when the connection has ended before the answer had arrived completely, as far as that is known."""
        ...

    def killed(self, attempt: CallAttempt) -> None:
        """Called when the program is killed before its call is answered. The call does not count."""
        ...


class NullCallObserver:
    """Ignores all calls."""

    def answered(self, attempt: CallAttempt, answer: HttpResponse, outcome: WireOutcome) -> None: ...

    def delivered(self, attempt: CallAttempt) -> None: ...

    def left(self, attempt: CallAttempt) -> None: ...

    def killed(self, attempt: CallAttempt) -> None: ...


NULL_OBSERVER = NullCallObserver()
