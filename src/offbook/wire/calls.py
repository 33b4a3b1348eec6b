"""The calls of a session: numbers, attempts, planned faults and outcomes; and totals over many sessions."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal, Protocol

from msgspec import Struct

from offbook.errors import MismatchKind
from offbook.events import CallContent
from offbook.faults import AnyFault, AnyToolFault, Crash, PlannedFault, ToolSite
from offbook.faults.catalog import AnyOrderFault
from offbook.faults.site import ReachedSites, Site
from offbook.messages import Request
from offbook.recording.format.exchange import Exchange, RecordedToolCall
from offbook.wire.request import HttpRequest, ParsedRequest

if TYPE_CHECKING:
    from offbook.session.tape import Tape
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


STEP_HEADER = "x-offbook-step"
FAULTED_OPERATIONS = ("generate", "embed")


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
        self.uses: dict[Tape, RecordingUse] = {}
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
        self.fired_lines += [line for line in session.faults.fired_lines if line not in self.fired_lines]
        self.reached.update(session.faults.reached)
        if session.source is not None:
            use = self.uses.setdefault(session.source.tape, RecordingUse(set(), set()))
            use.ids.update(session.source.used_ids)
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
        for tape, use in self.uses.items():
            total = totals.uses.setdefault(tape, RecordingUse(set(), set()))
            total.ids.update(use.ids)
            total.sessions.update(use.sessions)
        return totals


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
