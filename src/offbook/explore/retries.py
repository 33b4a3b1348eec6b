"""The model calls of a run with a fault: wrong retries, refused requests, and calls that got no good answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from msgspec.structs import replace

from offbook.explore.cases import site_of
from offbook.explore.run import ModelCall, Run
from offbook.explore.verdict import Reason
from offbook.faults import PlannedFault
from offbook.faults.fault import FaultTrait
from offbook.faults.http import HOPELESS_STATUSES
from offbook.text import pluralize

MAX_ATTEMPTS = 10
"""The number of times that one call may be sent. More are a storm."""

MAX_HASTY_RETRIES = 4
"""The number of retries without any pause, in virtual time, that are a storm."""


def _faults_at(call: ModelCall, faults: Iterable[PlannedFault]) -> Iterator[PlannedFault]:
    """Yield the faults that fired at this attempt of a call. A run has one workflow, which sites need not name."""
    site = site_of(call)
    return (planned for planned in faults if replace(planned.at, workflow=None).covers(site))


def bad_retries(calls: Sequence[ModelCall], faults: Sequence[PlannedFault]) -> Iterator[tuple[Reason, str]]:
    """Yield why calls were sent again in a wrong way after the faults, with the evidence."""
    for call in [each for each in calls if each.is_too_soon][:1]:
        yield "too soon", f"call {call.row} came sooner than the last answer asked for"
    if not any("wants_less" in planned.fault.traits for planned in faults):
        for call in [each for each in calls if each.forgot][:1]:
            lost = pluralize(call.forgot, "message")
            yield "lost messages", f"the request after the failure lacks {lost} of its conversation"
    attempts = {(call.number, call.attempt) for call in calls}
    for call in calls:
        statuses = [getattr(planned.fault, "status_code", None) for planned in _faults_at(call, faults)]
        if statuses and statuses[0] in HOPELESS_STATUSES and (call.number, call.attempt + 1) in attempts:
            yield "in vain", f"call {call.number} was sent again unchanged after HTTP {statuses[0]}, which cannot help"
            break
    yield from (("storm", storm) for storm in _storms(calls))


def _storms(calls: Iterable[ModelCall]) -> Iterator[str]:
    waits_of: dict[int, list[float | None]] = {}
    for call in calls:
        waits_of.setdefault(call.number, []).append(call.waited_s)
    for number, (_, *pauses) in waits_of.items():
        if len(pauses) >= MAX_ATTEMPTS:
            yield f"call {number} was sent {len(pauses) + 1} times"
        elif len(pauses) >= MAX_HASTY_RETRIES and not any(pause is None or pause > 0 for pause in pauses):
            yield f"call {number} was sent {len(pauses) + 1} times without a pause"


def refusals(run: Run, *, got_out: bool) -> Iterator[str]:
    """Describe the first request that the API refuses, its cause, and the fate of the conversation.

    It is one of those that the run `got_out` of, or one of the others.
    """
    refused = [call for call in run.calls if call.refusal and call.got_out is got_out]
    if not refused:
        return
    further = len(refused) - 1
    if got_out:
        end = "a later request was accepted"
    elif further:
        verb = "was" if further == 1 else "were"
        end = f"permanently: {pluralize(further, 'further request')} {verb} also refused"
    else:
        end = "no later request was accepted"
    cause = ", ".join(run.fired) if run.first_life is None else f"killed {run.first_life.killed}, started again"
    yield f"{refused[0].refusal} (after: {cause}; {end})"


class UnansweredCalls:
    """The model calls of a run with `faults` that got no answer, or a bad one, and no replacement."""

    def __init__(self, run: Run, clean: Run, faults: Sequence[PlannedFault], optional: Collection[str] = ()) -> None:
        self._run, self._clean, self._faults, self._optional = run, clean, faults, optional

    def describe(self) -> list[tuple[ModelCall, str]]:
        """Return the calls without a good answer, each with a description.

        They failed for good, or got an empty answer or a refusal, and were not asked again.
        """
        good = [call for call in self._run.calls if not self._has_none(call)]
        lacking = self._without(self._has_none)
        calls = [call for call in lacking if not any(_asks_again(each, call) for each in good)]
        return [(call, self._text(call)) for call in calls]

    def cut_off(self) -> list[ModelCall]:
        """Return the calls whose answer was cut off and not replaced."""
        return self._without(lambda call: self._is_hit(call, "cuts_answer"))

    def is_needed(self, call: ModelCall) -> bool:
        """Return whether the run needed the answer: it was not a closing turn after all effects.

        Something else followed it, or it is a separate question, or the run has a result and no effects.
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
        return any(trait in planned.fault.traits for planned in _faults_at(call, self._faults))


def _asks_again(call: ModelCall, before: ModelCall) -> bool:
    """Return whether the same named step asks again after an empty answer, and shows that to its model."""
    is_later = call.number > before.number and call.step_id == before.step_id is not None
    return is_later and before.outcome == "answered" and bool(call.follows)
