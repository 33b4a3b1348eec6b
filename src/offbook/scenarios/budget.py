"""The budget of a run: which conversations may start, whatever runs them and however long each takes."""

from __future__ import annotations

import asyncio


class Budget:
    """A limit to the cost of a run; None is no limit.

    With a limit, conversations start in their order, each when all but the last `concurrency` - 1 before it have ended,
    and the costs of those that have ended then decide whether it starts. So the same conversations start in every run,
    in one process and in many, and what is spent beyond the limit is the cost of `concurrency` conversations at most.
    """

    def __init__(self, limit_usd: float | None, *, concurrency: int) -> None:
        self._limit_usd, self._concurrency = limit_usd, concurrency
        self._costs: dict[int, float] = {}
        self._spent_usd = [0.0]
        self._waiting: dict[int, asyncio.Future[None]] = {}

    def __str__(self) -> str:
        return f"${self._limit_usd or 0.0:g}"

    async def is_spent(self, at: int) -> bool:
        """Return whether the budget is spent for conversation `at`, as soon as it may start."""
        if self._limit_usd is None:
            return False
        ended = max(at + 1 - self._concurrency, 0)
        if len(self._spent_usd) <= ended:
            self._waiting[ended] = asyncio.get_running_loop().create_future()
            await self._waiting[ended]
        return self._spent_usd[ended] >= self._limit_usd

    def note(self, at: int, cost_usd: float) -> None:
        """Note that conversation `at` has ended."""
        self._costs[at] = cost_usd
        while (ended := len(self._spent_usd)) - 1 in self._costs:
            self._spent_usd.append(self._spent_usd[-1] + self._costs[ended - 1])
            waiting = self._waiting.pop(ended, None)
            if waiting is not None and not waiting.done():
                waiting.set_result(None)
