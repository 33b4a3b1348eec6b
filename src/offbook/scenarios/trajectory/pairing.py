"""Pairs calls with expectations: by alignment if order matters, else by bipartite matching."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TypeAlias

from msgspec import Struct

from offbook.messages import ToolCall
from offbook.scenarios.trajectory.arguments import ArgumentDifference
from offbook.scenarios.trajectory.trajectory import Expectation, Trajectory

Owners: TypeAlias = list[int | None]
"""For each call, the expectation that it is paired with, or None."""


class Demand(Struct, frozen=True):
    """The minimum and maximum number of calls of an expectation; None means no maximum."""

    least: int
    most: int | None

    def has_room(self, count: int) -> bool:
        """Return whether more than `count` calls are allowed."""
        return self.most is None or count < self.most

    def bare(self) -> Demand:
        """Return the demand with its minimum as maximum."""
        return Demand(self.least, self.least)

    def without(self, count: int) -> Demand:
        """Return what remains after `count` calls."""
        return Demand(max(self.least - count, 0), None if self.most is None else self.most - count)


def demands_of(trajectory: Trajectory) -> list[Demand]:
    """Return the demand of each expectation."""
    uncounted = Demand(0, None) if trajectory.mode == "within" else Demand(1, 1)
    return [Demand(each.at_least or 0, each.at_most) if each.is_counted else uncounted for each in trajectory.expected]


def remaining(demands: Iterable[Demand], *owners: Owners) -> list[Demand]:
    """Return what remains of the demands after these pairings."""
    return [demand.without(sum(each.count(index) for each in owners)) for index, demand in enumerate(demands)]


class _Slot(Struct, frozen=True):
    """A place for one call, or for any number of calls if it `repeats`."""

    expectation: int
    is_required: bool
    repeats: bool = False


def align(fits: Sequence[Sequence[int]], demands: Sequence[Demand], must: Sequence[bool]) -> Owners:
    """Pair calls with expectations, in the order of both, so that as few as possible remain unpaired.

    This counts missing calls of expectations, and calls that must be paired. Among equal solutions, an unpaired call
    and an unpaired expectation are at the same position. The arguments are those of `assign`.
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
    """Yield the slots of a demand: as many as the calls can fill, and one that shows whether more are missing."""
    required = min(demand.least, calls + 1)
    for _ in range(required):
        yield _Slot(expectation, is_required=True)
    if demand.most is None:
        yield _Slot(expectation, is_required=False, repeats=True)
    else:
        for _ in range(min(demand.most, calls) - required):
            yield _Slot(expectation, is_required=False)


def _costs(slots: Sequence[_Slot], fits: Sequence[Sequence[int]], must: Sequence[bool]) -> list[list[int]]:
    """Return for each slot and call how many of those from there on remain unpaired at least."""
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


def assign(fits: Sequence[Sequence[int]], demands: Sequence[Demand], must: Sequence[bool]) -> Owners:
    """Pair calls with expectations so that as few as possible remain unpaired.

    This counts missing calls of expectations, and calls that must be paired. Earlier ones take precedence.

    Args:
        fits: the expectations that each call matches, by index.
        demands: the minimum and maximum number of calls of each expectation.
        must: which calls must be paired.
    """
    owners: Owners = [None] * len(fits)
    for receiver, demand in enumerate(demands):
        for _ in range(demand.least):
            if not _supply(receiver, fits, owners):
                break
    for call in range(len(fits)):
        if must[call] and owners[call] is None:
            _place(call, fits, demands, must, owners)
    return owners


def _supply(needy: int, fits: Sequence[Sequence[int]], owners: Owners) -> bool:
    """Find one more call for an expectation by an augmenting path. Return False if there is none.

    Each expectation on the path hands its call to the one before it, and takes another.
    """
    receivers: dict[int, int] = {}
    released: dict[int, int] = {needy: -1}
    queue = deque([needy])
    while queue:
        receiver = queue.popleft()
        for call in (
            call for call, expectations in enumerate(fits) if receiver in expectations and call not in receivers
        ):
            receivers[call] = receiver
            owner = owners[call]
            if owner is None:
                _shift_calls(call, receivers, released, owners)
                return True
            if owner not in released:
                released[owner] = call
                queue.append(owner)
    return False


def _shift_calls(call: int, receivers: dict[int, int], released: dict[int, int], owners: Owners) -> None:
    while call >= 0:
        owners[call] = receiver = receivers[call]
        call = released[receiver]


def _place(
    unplaced: int, fits: Sequence[Sequence[int]], demands: Sequence[Demand], must: Sequence[bool], owners: Owners
) -> None:
    """Find an expectation for a call, if necessary by moving others. A call that need not be paired may be unpaired."""
    arrivals: dict[int, int] = {}
    queue = deque([unplaced])
    while queue:
        call = queue.popleft()
        for target in (target for target in fits[call] if target not in arrivals):
            arrivals[target] = call
            paired = [each for each, owner in enumerate(owners) if owner == target]
            spare = [each for each in paired if not must[each]]
            if demands[target].has_room(len(paired)) or spare:
                if not demands[target].has_room(len(paired)):
                    owners[spare[-1]] = None
                _shift_owners(target, arrivals, owners)
                return
            queue.extend(paired)


def _shift_owners(target: int | None, arrivals: dict[int, int], owners: Owners) -> None:
    while target is not None:
        call = arrivals[target]
        target, owners[call] = owners[call], target


Relation: TypeAlias = list[list[int]]
"""For each call, the related expectations, in order."""
Differences: TypeAlias = dict[tuple[int, int], list[ArgumentDifference]]
"""The argument differences of each pair of a call and an expectation of the same tool."""


class Pairing(Struct, frozen=True, kw_only=True):
    """The pairs of calls and expectations.

    A call is `fitting`; or `misplaced`, if it matches an expectation at another position; or `differing`, if only its
    arguments differ; or none of these. `must` says which calls must be fitting, `missing` how many calls of each
    expectation are missing, whether or not there are differing ones.
    """

    fits: Relation
    fitting: Owners
    misplaced: Owners
    differing: Owners
    must: list[bool]
    missing: list[int]
    differences: Differences


def pair(calls: Sequence[ToolCall], trajectory: Trajectory, *, forbidden: Collection[int]) -> Pairing:
    """Return the pairing with the fewest unpaired. Forbidden calls may be fitting, but need not be."""
    found = _differences(calls, trajectory.expected)
    fits, near = (_relation(found, len(calls), is_equal=is_equal) for is_equal in (True, False))
    must = [index not in forbidden and _must_fit(fits[index], trajectory) for index in range(len(calls))]
    demands = demands_of(trajectory)
    find = align if trajectory.is_ordered else assign

    fitting = find(fits, demands, must)
    misplaced: Owners = [None] * len(calls)
    if trajectory.is_ordered:
        misplaced = assign(_among_unpaired(fits, forbidden, fitting), remaining(demands, fitting), must)
        near = _between_neighbours(near, fitting)
    lacking = remaining(demands, fitting, misplaced)
    open_to = [demand.bare() for demand in lacking] if trajectory.allows_others else lacking
    differing = find(_among_unpaired(near, forbidden, fitting, misplaced), open_to, must)
    missing = [demand.least for demand in lacking]
    return Pairing(
        fits=fits,
        fitting=fitting,
        misplaced=misplaced,
        differing=differing,
        must=must,
        missing=missing,
        differences=found,
    )


def _differences(calls: Sequence[ToolCall], expectations: Sequence[Expectation]) -> Differences:
    return {
        (index, each): expectation.differences(call)
        for index, call in enumerate(calls)
        for each, expectation in enumerate(expectations)
        if call.tool == expectation.tool
    }


def _relation(found: Differences, calls: int, *, is_equal: bool) -> Relation:
    """Return the expectations that each call matches, or those from which only its arguments differ."""
    relation: Relation = [[] for _ in range(calls)]
    for (call, expectation), differences in found.items():
        if is_equal is not bool(differences):
            relation[call].append(expectation)
    return relation


def _must_fit(fits: list[int], trajectory: Trajectory) -> bool:
    """Return whether a call must be paired. Where other calls are allowed, those with a maximum must."""
    return not trajectory.allows_others or any(trajectory.expected[each].at_most is not None for each in fits)


def _among_unpaired(relation: Relation, forbidden: Collection[int], *owners: Owners) -> Relation:
    """Return the relation of only the unpaired calls."""
    return [
        [] if call in forbidden or any(each[call] is not None for each in owners) else related
        for call, related in enumerate(relation)
    ]


def _between_neighbours(relation: Relation, owners: Owners) -> Relation:
    """Return the relation without expectations outside the range between the pairs of the neighbouring calls."""
    known = [owner for owner in owners if owner is not None]
    limited: Relation = []
    passed = 0
    for related, owner in zip(relation, owners, strict=True):
        first, last = (known[passed - 1] if passed else 0), (known[passed] if passed < len(known) else None)
        limited.append([each for each in related if first <= each and (last is None or each <= last)])
        passed += owner is not None
    return limited
