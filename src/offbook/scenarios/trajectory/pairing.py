"""Pairs calls with expectations: by alignment where order matters, else by bipartite matching."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TypeAlias

from msgspec import Struct

from offbook.messages import ToolCall
from offbook.scenarios.trajectory.arguments import ArgumentDifference
from offbook.scenarios.trajectory.trajectory import Expectation, Trajectory

Owners: TypeAlias = list[int | None]
"""For each call, which expectation has it, if one has."""


class Demand(Struct, frozen=True):
    """How many calls an expectation must have, and how many it may; None is no limit."""

    least: int
    most: int | None

    def has_room(self, count: int) -> bool:
        """Whether it may have more than `count` calls."""
        return self.most is None or count < self.most

    def bare(self) -> Demand:
        """No more than it must have."""
        return Demand(self.least, self.least)

    def without(self, count: int) -> Demand:
        """What is left of it once it has `count` calls."""
        return Demand(max(self.least - count, 0), None if self.most is None else self.most - count)


def demands_of(trajectory: Trajectory) -> list[Demand]:
    """The demand of each expectation."""
    uncounted = Demand(0, None) if trajectory.mode == "within" else Demand(1, 1)
    return [Demand(each.at_least or 0, each.at_most) if each.is_counted else uncounted for each in trajectory.expected]


def remaining(demands: Iterable[Demand], *owners: Owners) -> list[Demand]:
    """What is left of the demands."""
    return [demand.without(sum(each.count(index) for each in owners)) for index, demand in enumerate(demands)]


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


def assign(fits: Sequence[Sequence[int]], demands: Sequence[Demand], must: Sequence[bool]) -> Owners:
    """Give calls to expectations, so that as little as can be is left over.

    That is: expectations that lack calls, and calls that must go somewhere. Among equals, the earlier comes first.

    Args:
        fits: the expectations that each call fits, by index.
        demands: how many calls each expectation must have, and may have.
        must: which calls must go somewhere.
    """
    owners: Owners = [None] * len(fits)
    for taker, demand in enumerate(demands):
        for _ in range(demand.least):
            if not _supply(taker, fits, owners):
                break
    for call in range(len(fits)):
        if must[call] and owners[call] is None:
            _place(call, fits, demands, must, owners)
    return owners


def _supply(wanting: int, fits: Sequence[Sequence[int]], owners: Owners) -> bool:
    """Get one more call for an expectation; whoever has it now gets another one. False if that cannot be."""
    takers: dict[int, int] = {}
    given_up: dict[int, int] = {wanting: -1}
    queue = deque([wanting])
    while queue:
        taker = queue.popleft()
        for call in (call for call, expectations in enumerate(fits) if taker in expectations and call not in takers):
            takers[call] = taker
            owner = owners[call]
            if owner is None:
                _hand_on(call, takers, given_up, owners)
                return True
            if owner not in given_up:
                given_up[owner] = call
                queue.append(owner)
    return False


def _hand_on(call: int, takers: dict[int, int], given_up: dict[int, int], owners: Owners) -> None:
    while call >= 0:
        owners[call] = taker = takers[call]
        call = given_up[taker]


def _place(
    unplaced: int, fits: Sequence[Sequence[int]], demands: Sequence[Demand], must: Sequence[bool], owners: Owners
) -> None:
    """Find an expectation for a call, if need be by moving others; one that need not be anywhere may have to leave."""
    arrivals: dict[int, int] = {}
    queue = deque([unplaced])
    while queue:
        call = queue.popleft()
        for target in (target for target in fits[call] if target not in arrivals):
            arrivals[target] = call
            held = [each for each, owner in enumerate(owners) if owner == target]
            spare = [each for each in held if not must[each]]
            if demands[target].has_room(len(held)) or spare:
                if not demands[target].has_room(len(held)):
                    owners[spare[-1]] = None
                _move_in(target, arrivals, owners)
                return
            queue.extend(held)


def _move_in(target: int | None, arrivals: dict[int, int], owners: Owners) -> None:
    while target is not None:
        call = arrivals[target]
        target, owners[call] = owners[call], target


Relation: TypeAlias = list[list[int]]
"""For each call, the expectations that it has something to do with, in order."""
Differences: TypeAlias = dict[tuple[int, int], list[ArgumentDifference]]
"""How the arguments of each call differ from those of each expectation of the same tool."""


class Pairing(Struct, frozen=True):
    """The calls with their expectations.

    A call is `fitting`; or it is `misplaced`, and fits an expectation that comes elsewhere; or it is
    `differing`, in its arguments only; or none of these. `must` says which calls must be fitting,
    `missing` how many calls each expectation lacks; a differing call does not make up for one.
    """

    fits: Relation
    fitting: Owners
    misplaced: Owners
    differing: Owners
    must: list[bool]
    missing: list[int]
    differences: Differences


def pair(calls: Sequence[ToolCall], trajectory: Trajectory, *, forbidden: Collection[int]) -> Pairing:
    """The pairing that leaves least over. Forbidden calls may be fitting, but need not be."""
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
    return Pairing(fits, fitting, misplaced, differing, must, missing, found)


def _differences(calls: Sequence[ToolCall], expectations: Sequence[Expectation]) -> Differences:
    return {
        (index, each): expectation.differences(call)
        for index, call in enumerate(calls)
        for each, expectation in enumerate(expectations)
        if call.tool == expectation.tool
    }


def _relation(found: Differences, calls: int, *, is_equal: bool) -> Relation:
    """The expectations that each call fits, or those from which it differs in its arguments only."""
    relation: Relation = [[] for _ in range(calls)]
    for (call, expectation), differences in found.items():
        if is_equal is not bool(differences):
            relation[call].append(expectation)
    return relation


def _must_fit(fits: list[int], trajectory: Trajectory) -> bool:
    """Whether a call must have an expectation. Where others are allowed, those that have a limit are not."""
    return not trajectory.allows_others or any(trajectory.expected[each].at_most is not None for each in fits)


def _among_unpaired(relation: Relation, forbidden: Collection[int], *owners: Owners) -> Relation:
    """The relation of those calls alone that nobody has yet."""
    return [
        [] if call in forbidden or any(each[call] is not None for each in owners) else related
        for call, related in enumerate(relation)
    ]


def _between_neighbours(relation: Relation, owners: Owners) -> Relation:
    """The relation without expectations that come before, or after, those of the calls around."""
    known = [owner for owner in owners if owner is not None]
    kept: Relation = []
    passed = 0
    for related, owner in zip(relation, owners, strict=True):
        first, last = (known[passed - 1] if passed else 0), (known[passed] if passed < len(known) else None)
        kept.append([each for each in related if first <= each and (last is None or each <= last)])
        passed += owner is not None
    return kept
