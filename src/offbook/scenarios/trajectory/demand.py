"""How many calls an expectation takes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from msgspec import Struct

from offbook.scenarios.trajectory.trajectory import Trajectory

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
