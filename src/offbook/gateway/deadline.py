"""The moment by which a whole call must be over."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from math import inf
from typing import TypeVar

from offbook.clock import Clock
from offbook.errors import Attempt, DeadlineExceededError

T = TypeVar("T")


class Deadline:
    """Ends `limit_s` from now; None is never. `attempts` is what its error tells of."""

    def __init__(self, limit_s: float | None, *, attempts: Sequence[Attempt], clock: Clock) -> None:
        self._limit_s, self._attempts, self._clock = limit_s, attempts, clock
        self._ends_at_s = inf if limit_s is None else clock.monotonic_s() + limit_s

    @property
    def left_s(self) -> float:
        return inf if self._limit_s is None else self._ends_at_s - self._clock.monotonic_s()

    def meet(self, work: Callable[[], Awaitable[T]]) -> Awaitable[T]:
        """What `work` gives, if it does in time.

        Raises:
            DeadlineExceededError: it does not, or there is no time left to begin.
        """
        return work() if self._limit_s is None else self._meet(work)

    async def _meet(self, work: Callable[[], Awaitable[T]]) -> T:
        if self.left_s <= 0:
            raise self.exceeded()
        try:
            async with asyncio.timeout(self.left_s) as limit:
                return await work()
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise self.exceeded() from error

    def exceeded(self) -> DeadlineExceededError:
        """What a call fails with that cannot be over in time."""
        assert self._limit_s is not None
        return DeadlineExceededError(self._limit_s, self._attempts)
