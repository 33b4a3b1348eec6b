"""One run over the wire: its place in the recording, its faults, and what became of its calls."""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable

from msgspec.structs import replace

from offbook.codecs.parsing import shorten
from offbook.errors import RecordingMismatchError
from offbook.events import NULL_SINK, FaultFired, ReplayMissed, ReplayServed, Sink
from offbook.faults import FaultPlan, PlannedFault
from offbook.messages import Response
from offbook.recording.cursor import Unused
from offbook.wire.answer import Answer
from offbook.wire.asked import Reader
from offbook.wire.breakage import Struck, broken, spoils
from offbook.wire.call_count import NO_FAULTS, CallCount
from offbook.wire.encoding import error_answer
from offbook.wire.http_call import HttpCall
from offbook.wire.log import Miss, Outcome, WireCall, unheard
from offbook.wire.rehearsal import NOBODY, Rehearsal
from offbook.wire.replay import Found, WireReplay
from offbook.wire.taken import Taken

logger = logging.getLogger("offbook.wire")

MISS_STATUS = 422
"""A status that no SDK tries again, and that no vendor uses for something an agent could put right."""

SHOWN_CHARS = 4_000
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
        reader: Reader,
        replay: WireReplay | None,
        plan: FaultPlan = NO_FAULTS,
        is_live: bool = False,
        retry_after_ms: float | None = None,
        sink: Sink = NULL_SINK,
        on_call: Callable[[WireCall], None] = unheard,
        rehearsal: Rehearsal | None = None,
    ) -> None:
        self.name, self.is_live = name, is_live
        self.calls: deque[WireCall] = deque(maxlen=MAX_CALLS)
        self.misses: deque[Miss] = deque(maxlen=MAX_CALLS)
        self.call_count = 0
        self.outcomes: Counter[Outcome] = Counter()
        self.failures: Counter[str] = Counter()
        self._reader, self._replay, self._sink = reader, replay, sink
        self._rehearsal, self._watcher = rehearsal, NOBODY if rehearsal is None else rehearsal.watcher
        self._late: set[int] = set()
        self._count = CallCount(plan, counts_all=rehearsal is not None)
        self._retry_after_ms, self._on_call = retry_after_ms, on_call

    def take(self, call: HttpCall) -> Taken:
        """Read the call and give it its place among the others."""
        return self._count.take(call, self._reader.read(call))

    def answer(self, taken: Taken) -> Answer | None:
        """The answer to the call, or None if only upstream can tell it."""
        try:
            return self._clean(taken) if taken.fault is None else self._struck(taken)
        except RecordingMismatchError as error:
            return None if self.is_live else self._missed(taken, error)

    def broken(self, taken: Taken, clean: Answer, response: Response, *, key: str | None = None) -> Answer:
        """What the call's fault makes of the answer that upstream gave."""
        answer = self._break(taken, Struck(taken.asked, lambda: clean, lambda: response))
        return self.note(taken, answer, "struck", key=key)

    def note(
        self, taken: Taken, answer: Answer, outcome: Outcome, *, key: str | None = None, failure: str = ""
    ) -> Answer:
        """Put the call on the list, with what became of it."""
        is_late = self._rehearsal is not None and taken.fault is not None and answer.end_ms > 0
        if is_late:
            self._late.add(taken.number)
        self._count.note(taken, failed=is_late or spoils(taken.fault, answer))
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
        self._watcher.answered(taken, answer, outcome)
        return answer

    def arrived(self, taken: Taken) -> None:
        """The answer was sent to its end, before the client left. Of one that took its time, that is worth a note."""
        if taken.number in self._late:
            self._late.discard(taken.number)
            self._count.note(taken, failed=False)
            self._watcher.arrived(taken)

    @property
    def fired(self) -> list[PlannedFault]:
        """What struck, as lines of a plan."""
        return self._count.fired

    @property
    def struck(self) -> list[PlannedFault]:
        """The lines of the plan that have struck so far."""
        return self._count.struck

    def unstruck(self) -> list[PlannedFault]:
        """The lines of the plan that have struck nothing so far."""
        return self._count.unstruck()

    def follow(self, plan: FaultPlan) -> None:
        """Let faults strike as this plan says, from now on."""
        self._count.follow(plan)

    def unused(self) -> list[Unused]:
        """The entries of the recording that were never served."""
        return [] if self._replay is None else self._replay.unused()

    @property
    def replay(self) -> WireReplay | None:
        """Its way along a recording, if it has one."""
        return self._replay

    def _clean(self, taken: Taken) -> Answer:
        replay = self._known()
        found = replay.find(taken.asked, taken.step_id)
        answer = replay.answer(found, taken.asked).together
        replay.use(found)
        self._tell_served(taken, found)
        return self.note(taken, answer, _outcome(found, taken), key=found.key)

    def _struck(self, taken: Taken) -> Answer:
        """What the call's fault makes of it. An entry whose answer failed is left for the next try."""
        found = _Lookup(self._known, taken)
        answer = self._break(taken, Struck(taken.asked, found.answer, found.response))
        if found.entry is not None:
            self._tell_served(taken, found.entry)
            if not spoils(taken.fault, answer):
                self._known().use(found.entry)
        return self.note(taken, answer, "struck", key=None if found.entry is None else found.entry.key)

    def _break(self, taken: Taken, struck: Struck) -> Answer:
        assert taken.fault is not None
        answer = broken(taken.fault, struck).together()
        self._sink.emit(FaultFired(taken.step_id, taken.asked.model, taken.fault.type, "", taken.number, taken.attempt))
        return self._hastened(answer)

    def _hastened(self, answer: Answer) -> Answer:
        """The answer, with a short wait before the next try where it says none."""
        is_error = answer.status is not None and answer.status >= 400
        if self._retry_after_ms is None or not is_error or _RETRY_HEADERS & answer.headers.keys():
            return answer
        return replace(answer, headers=answer.headers | {"retry-after-ms": f"{self._retry_after_ms:g}"})

    def _tell_served(self, taken: Taken, found: Found) -> None:
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

    def _missed(self, taken: Taken, error: RecordingMismatchError) -> Answer:
        is_after_fault = bool(self.fired)
        if is_after_fault:
            error = error.but(struck=[str(planned) for planned in self.fired], hint="")
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
        if self._rehearsal is None:
            logger.warning("%s", error)
        self._sink.emit(ReplayMissed(taken.step_id, taken.asked.model, error.kind, "", taken.number, taken.attempt))
        if self._rehearsal is not None and self._rehearsal.goes_on:
            return self.note(taken, self._known().answer(Found(), taken.asked).together, "default")
        told = shorten(str(error), SHOWN_CHARS)
        codec = taken.asked.route.codec or taken.asked.route.vendor_codec
        return self.note(taken, error_answer(codec, MISS_STATUS, told, headers={"x-should-retry": "false"}), "missed")


class _Lookup:
    """An entry that is looked for once it is needed, if ever."""

    def __init__(self, replay: Callable[[], WireReplay], taken: Taken) -> None:
        self.entry: Found | None = None
        self._replay, self._taken = replay, taken

    def answer(self) -> Answer:
        return self._replay().answer(self._found(), self._taken.asked).apart

    def response(self) -> Response:
        return self._replay().response(self._found(), self._taken.asked)

    def _found(self) -> Found:
        if self.entry is None:
            self.entry = self._replay().find(self._taken.asked, self._taken.step_id)
        return self.entry


def _outcome(found: Found, taken: Taken) -> Outcome:
    if found.stored is not None:
        return "served"
    return "made" if taken.asked.request is None else "default"
