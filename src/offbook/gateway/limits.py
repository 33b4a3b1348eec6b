"""The limits of calls: a budget for the cost of all calls, and a deadline for each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from math import inf, isfinite
from typing import TypeVar

from offbook.clock import Clock, time_limit
from offbook.errors import Attempt, BudgetExceededError, DeadlineExceededError, InputError


class Budget:
    """Adds up costs in US dollars. No call starts once the limit is reached; calls in progress still count."""

    def __init__(self, limit_usd: float | None) -> None:
        if limit_usd is not None and not limit_usd >= 0:
            raise InputError(f"expected US dollars of zero or more, got {limit_usd!r}", source="budget_usd")
        self.limit_usd = limit_usd
        self.spent_usd = 0.0

    def check(self) -> None:
        """Raise BudgetExceededError if nothing is left."""
        if self.limit_usd is not None and self.spent_usd >= self.limit_usd:
            raise BudgetExceededError(spent_usd=self.spent_usd, limit_usd=self.limit_usd)

    def spend(self, cost_usd: float) -> None:
        """Add a cost. One that is not finite counts as zero: the budget would never end otherwise."""
        self.spent_usd += cost_usd if isfinite(cost_usd) else 0.0


T = TypeVar("T")


class Deadline:
    """Ends `limit_s` from now, or never if None. `attempts` are those of its error."""

    def __init__(self, limit_s: float | None, *, attempts: Sequence[Attempt], clock: Clock) -> None:
        self._limit_s, self._attempts, self._clock = limit_s, attempts, clock
        self._ends_at_s = inf if limit_s is None else clock.monotonic_s() + limit_s

    @property
    def left_s(self) -> float:
        return inf if self._limit_s is None else self._ends_at_s - self._clock.monotonic_s()

    def meet(self, work: Callable[[], Awaitable[T]]) -> Awaitable[T]:
        """Return the result of `work` if it ends in time.

        Raises:
            DeadlineExceededError: it does not, or there is no time left to start.
        """
        return work() if self._limit_s is None else self._meet(work)

    async def _meet(self, work: Callable[[], Awaitable[T]]) -> T:
        if self.left_s <= 0:
            raise self.exceeded()
        async with time_limit(self.left_s, lambda _: self.exceeded()):
            return await work()

    def exceeded(self) -> DeadlineExceededError:
        """Return the error of a call that cannot end in time."""
        assert self._limit_s is not None
        return DeadlineExceededError(self._limit_s, self._attempts)
