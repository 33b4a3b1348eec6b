"""Which call goes to which expectation when order does not matter: a bipartite matching."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from offbook.scenarios.trajectory.demand import Demand, Owners


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
