"""A session answers the calls of one run from its recording and fault plan; totals sum up the outcomes of many."""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable

from msgspec import Struct
from msgspec.structs import replace

from offbook.errors import RecordingMismatchError
from offbook.events import NULL_SINK, FaultFired, ReplayMissed, ReplayServed, Sink
from offbook.faults import FaultPlan, PlannedFault
from offbook.messages import Response
from offbook.recording.match.cursor import UnusedEntry
from offbook.text import shorten
from offbook.wire.calls import NO_FAULTS, CallAttempt, CallCounter, Miss, WireCall, WireOutcome, ignore_call
from offbook.wire.encode import error_response
from offbook.wire.faults import FaultTarget, apply_fault, spoils_answer
from offbook.wire.replay import NULL_OBSERVER, ExploredRun, ReplayMatch, WireReplay
from offbook.wire.replay_source import ReplaySource
from offbook.wire.request import HttpRequest, RequestParser
from offbook.wire.response import HttpResponse

logger = logging.getLogger("offbook.wire")

MISS_STATUS = 422
"""A status that no SDK tries again, and that no vendor uses for something an agent could put right."""

MAX_ERROR_CHARS = 4_000
MAX_CALLS = 10_000
"""How many calls are remembered: the latest."""

_RETRY_HEADERS = frozenset(("retry-after", "retry-after-ms"))


class WireSession:
    """A run that is answered from a recording, and broken as a plan says.

    `calls` lists the latest of what was asked and what became of it, `misses` what the recording has no answer for.
    `call_count` counts all calls, `outcomes` in which way their tries have ended, and `failures` how real APIs failed
    that were recorded, by what is told of it. `is_live` sessions leave what the recording lacks to be asked upstream.
    `on_call` hears of each call as it is answered. A `rehearsal` says that this is one run of many, and who watches it.
    """

    def __init__(
        self,
        name: str,
        *,
        reader: RequestParser,
        replay: WireReplay | None,
        plan: FaultPlan = NO_FAULTS,
        is_live: bool = False,
        retry_after_ms: float | None = None,
        sink: Sink = NULL_SINK,
        on_call: Callable[[WireCall], None] = ignore_call,
        explored_run: ExploredRun | None = None,
    ) -> None:
        self.name, self.is_live = name, is_live
        self.calls: deque[WireCall] = deque(maxlen=MAX_CALLS)
        self.misses: deque[Miss] = deque(maxlen=MAX_CALLS)
        self.call_count = 0
        self.outcomes: Counter[WireOutcome] = Counter()
        self.failures: Counter[str] = Counter()
        self._reader, self._replay, self._sink = reader, replay, sink
        self._explored_run, self._observer = (
            explored_run,
            NULL_OBSERVER if explored_run is None else explored_run.observer,
        )
        self._late: set[int] = set()
        self._count = CallCounter(plan, counts_all=explored_run is not None)
        self._retry_after_ms, self._on_call = retry_after_ms, on_call

    def take(self, call: HttpRequest) -> CallAttempt:
        """Read the call and give it its place among the others."""
        return self._count.take(call, self._reader.read(call))

    def answer(self, taken: CallAttempt) -> HttpResponse | None:
        """The answer to the call, or None if only upstream can tell it."""
        try:
            return self._clean(taken) if taken.fault is None else self._answer_with_fault(taken)
        except RecordingMismatchError as error:
            return None if self.is_live else self._answer_miss(taken, error)

    def broken(
        self, taken: CallAttempt, clean: HttpResponse, response: Response, *, key: str | None = None
    ) -> HttpResponse:
        """What the call's fault makes of the answer that upstream gave."""
        answer = self._apply_fault(taken, FaultTarget(taken.asked, lambda: clean, lambda: response))
        return self.note(taken, answer, "fault", key=key)

    def note(
        self,
        taken: CallAttempt,
        answer: HttpResponse,
        outcome: WireOutcome,
        *,
        key: str | None = None,
        failure: str = "",
    ) -> HttpResponse:
        """Put the call on the list, with what became of it."""
        is_late = self._explored_run is not None and taken.fault is not None and answer.end_ms > 0
        if is_late:
            self._late.add(taken.number)
        self._count.note(taken, failed=is_late or spoils_answer(taken.fault, answer))
        noted = WireCall(
            taken.number,
            self.name,
            taken.asked.route.vendor,
            taken.asked.place,
            outcome,
            taken.asked.model,
            answer.status,
            key,
            None if taken.fault is None else taken.fault.type,
            taken.attempt,
            taken.asked.request,
            taken.asked.method,
            taken.call,
            failure,
        )
        self.calls.append(noted)
        self.call_count += taken.attempt == 1
        self.outcomes[outcome] += 1
        if failure:
            self.failures[failure] += 1
        self._on_call(noted)
        self._observer.answered(taken, answer, outcome)
        return answer

    def arrived(self, taken: CallAttempt) -> None:
        """The answer was sent to its end, before the client left. Of one that took its time, that is worth a note."""
        if taken.number in self._late:
            self._late.discard(taken.number)
            self._count.note(taken, failed=False)
            self._observer.arrived(taken)

    @property
    def fired(self) -> list[PlannedFault]:
        """What fired, as lines of a plan."""
        return self._count.fired

    @property
    def fired_lines(self) -> list[PlannedFault]:
        """The lines of the plan that have fired so far."""
        return self._count.fired_lines

    def unfired(self) -> list[PlannedFault]:
        """The lines of the plan that have not fired so far."""
        return self._count.unfired()

    def follow(self, plan: FaultPlan) -> None:
        """Let faults strike as this plan says, from now on."""
        self._count.follow(plan)

    def unused(self) -> list[UnusedEntry]:
        """The entries of the recording that were never served."""
        return [] if self._replay is None else self._replay.unused()

    @property
    def replay(self) -> WireReplay | None:
        """Its way along a recording, if it has one."""
        return self._replay

    def _clean(self, taken: CallAttempt) -> HttpResponse:
        replay = self._known()
        found = replay.find(taken.asked, taken.step_id)
        answer = replay.answer(found, taken.asked).together
        replay.use(found)
        self._report_served(taken, found)
        return self.note(taken, answer, _outcome(found, taken), key=found.key)

    def _answer_with_fault(self, taken: CallAttempt) -> HttpResponse:
        """What the call's fault makes of it. An entry whose answer failed is left for the next try."""
        found = _DeferredMatch(self._known, taken)
        answer = self._apply_fault(taken, FaultTarget(taken.asked, found.answer, found.response))
        if found.entry is not None:
            self._report_served(taken, found.entry)
            if not spoils_answer(taken.fault, answer):
                self._known().use(found.entry)
        return self.note(taken, answer, "fault", key=None if found.entry is None else found.entry.key)

    def _apply_fault(self, taken: CallAttempt, target: FaultTarget) -> HttpResponse:
        assert taken.fault is not None
        answer = apply_fault(taken.fault, target).together()
        self._sink.emit(FaultFired(taken.step_id, taken.asked.model, taken.fault.type, "", taken.number, taken.attempt))
        return self._with_retry_after(answer)

    def _with_retry_after(self, answer: HttpResponse) -> HttpResponse:
        """The answer, with a short wait before the next try where it says none."""
        is_error = answer.status is not None and answer.status >= 400
        if self._retry_after_ms is None or not is_error or _RETRY_HEADERS & answer.headers.keys():
            return answer
        return replace(answer, headers=answer.headers | {"retry-after-ms": f"{self._retry_after_ms:g}"})

    def _report_served(self, taken: CallAttempt, found: ReplayMatch) -> None:
        """Tell of a call of a model; what was made up beside those is no call to be told of."""
        asked = taken.asked
        if self._sink is NULL_SINK or (found.stored is None and asked.request is None):
            return
        self._sink.emit(
            ReplayServed(
                taken.step_id,
                asked.model,
                found.matched_by,
                found.key,
                asked.request_hash,
                found.fault_type,
                "",
                taken.number,
                taken.attempt,
            )
        )

    def _known(self) -> WireReplay:
        if self._replay is None:
            raise RecordingMismatchError("nothing is recorded yet", kind="missing")
        return self._replay

    def _answer_miss(self, taken: CallAttempt, error: RecordingMismatchError) -> HttpResponse:
        is_after_fault = bool(self.fired)
        if is_after_fault:
            error = error.replace(fired=[str(planned) for planned in self.fired], hint="")
        self.misses.append(
            Miss(
                taken.call,
                self.name,
                taken.asked.place,
                error.kind,
                error.key,
                str(error),
                taken.number,
                taken.attempt,
                taken.asked.method,
                is_after_fault,
            )
        )
        if self._explored_run is None:
            logger.warning("%s", error)
        self._sink.emit(ReplayMissed(taken.step_id, taken.asked.model, error.kind, "", taken.number, taken.attempt))
        if self._explored_run is not None and self._explored_run.goes_on:
            return self.note(taken, self._known().answer(ReplayMatch(), taken.asked).together, "default")
        told = shorten(str(error), MAX_ERROR_CHARS)
        codec = taken.asked.route.codec or taken.asked.route.vendor_codec
        return self.note(taken, error_response(codec, MISS_STATUS, told, headers={"x-should-retry": "false"}), "missed")


class _DeferredMatch:
    """An entry that is looked for once it is needed, if ever."""

    def __init__(self, replay: Callable[[], WireReplay], taken: CallAttempt) -> None:
        self.entry: ReplayMatch | None = None
        self._replay, self._taken = replay, taken

    def answer(self) -> HttpResponse:
        return self._replay().answer(self._found(), self._taken.asked).apart

    def response(self) -> Response:
        return self._replay().response(self._found(), self._taken.asked)

    def _found(self) -> ReplayMatch:
        if self.entry is None:
            self.entry = self._replay().find(self._taken.asked, self._taken.step_id)
        return self.entry


def _outcome(found: ReplayMatch, taken: CallAttempt) -> WireOutcome:
    if found.stored is not None:
        return "served"
    return "made" if taken.asked.request is None else "default"


MAX_NAMED_SESSIONS = 2
"""How many sessions of a recording are remembered by name: enough to know whether there was but one."""


class RecordingUse(Struct, frozen=True):
    """What sessions have made of one recording: their names, as far as remembered, and the ids of what they used."""

    sessions: set[str]
    ids: set[int]


class SessionTotals:
    """Counts over sessions, of those that were asked something.

    `calls` counts calls, `outcomes` in which way their tries have ended, and `failures` how real APIs failed that were
    recorded, by what is told of it. `fired` are the latest faults, `fired_lines` the lines of plans that fired.
    """

    def __init__(self, sessions: Iterable[WireSession] = ()) -> None:
        self.calls = 0
        self.outcomes: Counter[WireOutcome] = Counter()
        self.failures: Counter[str] = Counter()
        self.fired: deque[PlannedFault] = deque(maxlen=MAX_CALLS)
        self.fired_lines: list[PlannedFault] = []
        self.uses: dict[ReplaySource, RecordingUse] = {}
        for session in sessions:
            self.add(session)

    @property
    def tries(self) -> int:
        """How often something was asked, further tries of calls included."""
        return self.outcomes.total()

    def add(self, session: WireSession) -> None:
        """Count a session, which is counted once."""
        if not session.outcomes:
            return
        self.calls += session.call_count
        self.outcomes.update(session.outcomes)
        self.failures.update(session.failures)
        self.fired.extend(session.fired)
        self.fired_lines += [line for line in session.fired_lines if line not in self.fired_lines]
        if session.replay is not None:
            use = self.uses.setdefault(session.replay.stock, RecordingUse(set(), set()))
            use.ids.update(session.replay.used_ids)
            if len(use.sessions) < MAX_NAMED_SESSIONS:
                use.sessions.add(session.name)

    def plus(self, sessions: Iterable[WireSession]) -> SessionTotals:
        """These and further sessions."""
        totals = SessionTotals(sessions)
        totals.calls += self.calls
        totals.outcomes.update(self.outcomes)
        totals.failures.update(self.failures)
        totals.fired.extendleft(reversed(self.fired))
        totals.fired_lines += [line for line in self.fired_lines if line not in totals.fired_lines]
        for stock, use in self.uses.items():
            known = totals.uses.setdefault(stock, RecordingUse(set(), set()))
            known.ids.update(use.ids)
            known.sessions.update(use.sessions)
        return totals
