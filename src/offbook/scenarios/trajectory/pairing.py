"""Which call belongs to which expectation, rightly or nearly so."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeAlias

from msgspec import Struct

from offbook.messages import ToolCall
from offbook.scenarios.trajectory.alignment import align
from offbook.scenarios.trajectory.arguments import Difference
from offbook.scenarios.trajectory.assignment import assign
from offbook.scenarios.trajectory.demand import Owners, demands_of, remaining
from offbook.scenarios.trajectory.expectation import Expectation
from offbook.scenarios.trajectory.trajectory import Trajectory

Relation: TypeAlias = list[list[int]]
"""For each call, the expectations that it has something to do with, in order."""
Differences: TypeAlias = dict[tuple[int, int], list[Difference]]
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
