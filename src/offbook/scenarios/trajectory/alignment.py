"""Which call goes to which expectation when order matters: an alignment of least cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from offbook.scenarios.trajectory.demand import Demand, Owners


class _Slot(Struct, frozen=True):
    """Room for a call, or for any number of them if it `repeats`."""

    expectation: int
    is_required: bool
    repeats: bool = False


def align(fits: Sequence[Sequence[int]], demands: Sequence[Demand], must: Sequence[bool]) -> Owners:
    """Give calls to expectations, in the order of both, so that as little as can be is left over.

    That is: expectations that lack calls, and calls that must go somewhere. Where there is a choice, a
    call and an expectation that both are left over stand at the same place. Arguments as of `assign`.
    """
    slots = [slot for index, demand in enumerate(demands) for slot in _slots(index, demand, len(fits))]
    costs = _costs(slots, fits, must)
    owners: Owners = [None] * len(fits)
    row = call = 0
    while row < len(slots) and call < len(fits):
        slot, cost = slots[row], costs[row][call]
        following = row if slot.repeats else row + 1
        if slot.expectation in fits[call] and costs[following][call + 1] == cost:
            owners[call] = slot.expectation
            row, call = following, call + 1
        else:
            skips_call = costs[row][call + 1] + must[call] == cost
            skips_both = slot.is_required and costs[row + 1][call + 1] + 1 + must[call] == cost
            row, call = row + (skips_both or not skips_call), call + (skips_both or skips_call)
    return owners


def _slots(expectation: int, demand: Demand, calls: int) -> Iterator[_Slot]:
    """The slots of a demand: as many as it can fill, and one that tells whether it lacks more."""
    required = min(demand.least, calls + 1)
    for _ in range(required):
        yield _Slot(expectation, is_required=True)
    if demand.most is None:
        yield _Slot(expectation, is_required=False, repeats=True)
    else:
        for _ in range(min(demand.most, calls) - required):
            yield _Slot(expectation, is_required=False)


def _costs(slots: Sequence[_Slot], fits: Sequence[Sequence[int]], must: Sequence[bool]) -> list[list[int]]:
    """For each slot and each call, what is left over at least of those from there on."""
    below = [sum(must[call:]) for call in range(len(fits) + 1)]
    table = [below]
    for slot in reversed(slots):
        row = [below[-1] + slot.is_required]
        for call in range(len(fits) - 1, -1, -1):
            cost = min(below[call] + slot.is_required, row[-1] + must[call])
            if slot.expectation in fits[call]:
                cost = min(cost, row[-1] if slot.repeats else below[call + 1])
            row.append(cost)
        below = row[::-1]
        table.append(below)
    return table[::-1]
