"""What was found out about the calls of a trajectory, before it is put into words."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from offbook.messages import ToolCall
from offbook.scenarios.trajectory.expectation import Expectation
from offbook.scenarios.trajectory.pairing import Pairing, pair
from offbook.scenarios.trajectory.trajectory import Order, Trajectory


class Judgement(Struct, frozen=True):
    """The calls, what was expected, and how the two go together.

    `forbidden` says of each forbidden call what forbids it, `early` of each call that comes too early
    what should have come before it.
    """

    calls: Sequence[ToolCall]
    trajectory: Trajectory
    pairing: Pairing
    forbidden: dict[int, Expectation]
    early: dict[int, Expectation]


def judge(calls: Sequence[ToolCall], trajectory: Trajectory) -> Judgement:
    """Hold the calls against the trajectory."""
    forbidden: dict[int, Expectation] = {}
    for index, call in enumerate(calls):
        for each in trajectory.forbidden:
            if index not in forbidden and each.fits(call):
                forbidden[index] = each
    early = dict(found for order in reversed(trajectory.before) for found in _early(calls, order))
    return Judgement(calls, trajectory, pair(calls, trajectory, forbidden=forbidden), forbidden, early)


def _early(calls: Sequence[ToolCall], order: Order) -> list[tuple[int, Expectation]]:
    """The first call of what should come second, if none of what should come first is before it."""
    first, then = order
    for index, call in enumerate(calls):
        if then.fits(call):
            return [(index, first)]
        if first.fits(call):
            return []
    return []
