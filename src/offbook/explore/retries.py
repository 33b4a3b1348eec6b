"""How a run sent its model calls again, rightly or not, and which of them never got a good answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from offbook.explore.run import ModelCall, Run
from offbook.faults import PlannedFault
from offbook.faults.fault import FaultTrait
from offbook.text import pluralize

if TYPE_CHECKING:
    from offbook.explore.verdict import Verdict

MAX_ATTEMPTS = 10
"""How often one call may be sent before that is a storm."""

MAX_HASTY_RETRIES = 4
"""How many retries in a row without any pause are a storm, in virtual time."""

_HOPELESS = frozenset((400, 401, 403, 404, 422))


def faults_at(call: ModelCall, faults: Iterable[PlannedFault]) -> Iterator[PlannedFault]:
    """Yield the faults that fired at this attempt of a call."""
    for planned in faults:
        at = planned.at
        number = call.number if at.step_id is None else call.step_call
        fields = ((at.step_id, call.step_id), (at.call, number), (at.attempt, call.attempt))
        if at.tool is None and all(wanted in (None, value) for wanted, value in fields):
            yield planned


def careless_calls(calls: Sequence[ModelCall], faults: Sequence[PlannedFault]) -> Iterator[tuple[Verdict, str]]:
    """Yield the verdicts on calls that were sent again in a wrong way after the faults, with the evidence."""
    for call in [each for each in calls if each.is_too_soon][:1]:
        yield "came too soon", f"call {call.row} came sooner than the last answer asked for"
    if not any("wants_less" in planned.fault.traits for planned in faults):
        for call in [each for each in calls if each.forgot][:1]:
            lost = f"the request after the failure lacks {pluralize(call.forgot, 'message')} of its conversation"
            yield "wrong", lost
    for call, status in [*_sent_in_vain(calls, faults)][:1]:
        yield "retried in vain", f"call {call.number} was sent again unchanged after HTTP {status}, which cannot help"
    for storm in _storms(calls):
        yield "retry storm", storm


def _sent_in_vain(calls: Sequence[ModelCall], faults: Sequence[PlannedFault]) -> Iterator[tuple[ModelCall, int]]:
    for call in calls:
        status = next((_hopeless_status(planned) for planned in faults_at(call, faults)), None)
        if status and any(_is_next_attempt(each, call) for each in calls):
            yield call, status


def _hopeless_status(planned: PlannedFault) -> int | None:
    """Return the status of a fault that the same request would get again."""
    status = getattr(planned.fault, "status_code", None)
    return status if status in _HOPELESS else None


def _is_next_attempt(call: ModelCall, before: ModelCall) -> bool:
    return call.number == before.number and call.attempt == before.attempt + 1


def _storms(calls: Iterable[ModelCall]) -> Iterator[str]:
    pauses_of: dict[int, list[float | None]] = {}
    for call in calls:
        pauses_of.setdefault(call.number, []).append(call.waited_s)
    for number, waits in pauses_of.items():
        count, pauses = len(waits), waits[1:]
        if count > MAX_ATTEMPTS:
            yield f"call {number} was sent {count} times"
        elif len(pauses) >= MAX_HASTY_RETRIES and not any(pause is None or pause > 0 for pause in pauses):
            yield f"call {number} was sent {count} times without a pause"


class UnansweredCalls:
    """The model calls of a run with `faults` that got no answer, or a bad one, and none in its place."""

    def __init__(self, run: Run, clean: Run, faults: Sequence[PlannedFault], optional: Collection[str] = ()) -> None:
        self._run, self._clean, self._faults, self._optional = run, clean, faults, optional

    def describe(self) -> list[tuple[ModelCall, str]]:
        """Return the calls that got no good answer, each with a text that says so.

        They failed for good, or their answer was empty or a refusal, and they were not asked again.
        """
        good = [call for call in self._run.calls if not self._has_none(call)]
        lacking = self._without(self._has_none)
        calls = [call for call in lacking if not any(_asks_again(each, call) for each in good)]
        return [(call, self._text(call)) for call in calls]

    def cut_off(self) -> list[ModelCall]:
        """Return the calls whose answer was cut off, and that got no other."""
        return self._without(lambda call: self._is_hit(call, "cuts_answer"))

    def is_needed(self, call: ModelCall) -> bool:
        """Return whether the run needed the answer: it is no closing turn of a conversation whose effects are done.

        Something else came after it, or it is a question of its own, or there are no effects but the result alone.
        """
        if call.follows != "continues":
            return True
        observed = [effect for effect in self._run.effects if effect.source == "observed"]
        has_later_effect = call.effects_before is not None and len(observed) > call.effects_before
        has_later_call = any(each.number > call.number for each in self._run.calls)
        return has_later_effect or has_later_call or not self._clean.effects

    def _has_none(self, call: ModelCall) -> bool:
        is_reordered = all(planned.fault.type == "held_until" for planned in self._faults)
        is_outrun = is_reordered and call.error.startswith("CancelledError")  # the agent has taken a faster answer
        is_failed = call.outcome == "failed" and not is_outrun
        return is_failed or self._is_hit(call, "empties_answer") or self._is_hit(call, "reads_like_answer")

    def _text(self, call: ModelCall) -> str:
        is_refused = call.outcome != "failed" and self._is_hit(call, "reads_like_answer")
        return f"call {call.row} {'got a refusal' if is_refused else 'never got a good answer'}"

    def _without(self, is_bad: Callable[[ModelCall], bool]) -> list[ModelCall]:
        """Return the last bad call of each step that got fewer good answers than in the clean run."""
        wanted = Counter(call.step_id for call in self._clean.calls if call.outcome == "answered")
        last_bad = {call.step_id: call for call in self._run.calls if is_bad(call)}
        good = Counter(call.step_id for call in self._run.calls if call.outcome != "failed" and not is_bad(call))
        if good - wanted:  # another step answered instead
            return []
        return [call for step, call in last_bad.items() if good[step] < wanted[step] and step not in self._optional]

    def _is_hit(self, call: ModelCall, trait: FaultTrait) -> bool:
        return any(trait in planned.fault.traits for planned in faults_at(call, self._faults))


def _asks_again(call: ModelCall, before: ModelCall) -> bool:
    """Return whether a call of the same named step asks again after an empty answer: it shows that to its model."""
    is_later = call.number > before.number and call.step_id == before.step_id is not None
    return is_later and before.outcome == "answered" and bool(call.follows)
