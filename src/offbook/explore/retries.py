"""What a run does wrong when it sends calls again: too soon, without their conversation, in vain, or in a storm."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from offbook.explore.run import ModelCall
from offbook.faults import PlannedFault
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
