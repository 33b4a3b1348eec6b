"""The limits of calls: a budget for their cost, a deadline for each, and the rates of a provider."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from math import inf, isfinite
from typing import TypeVar

from msgspec import Struct

from offbook.clock import Clock, time_limit
from offbook.errors import Attempt, BudgetExceededError, DeadlineExceededError, InputError
from offbook.messages import Reply, Request, Response
from offbook.providers.provider import Provider, WrappedProvider, notify_on_end
from offbook.text import estimate_tokens


class Budget:
    """Adds up costs in US dollars. No call starts once the limit is reached, or if its price is unknown; calls in
    progress still count.
    """

    def __init__(self, limit_usd: float | None) -> None:
        if limit_usd is not None and not limit_usd >= 0:
            raise InputError(f"expected US dollars of zero or more, got {limit_usd!r}", source="budget_usd")
        self.limit_usd = limit_usd
        self.spent_usd = 0.0
        self._priced: set[str] = set()

    def check_price(self, provider: Provider, request: Request) -> None:
        """Check that `provider` knows the price of the request's model, once for each model.

        Raises:
            InputError: it does not.
        """
        if request.model not in self._priced:
            provider.check_price(request)
            self._priced.add(request.model)

    def check(self) -> None:
        """Raise BudgetExceededError if nothing is left."""
        if self.limit_usd is not None and self.spent_usd >= self.limit_usd:
            raise BudgetExceededError(spent_usd=self.spent_usd, limit_usd=self.limit_usd)

    def spend(self, cost_usd: float) -> None:
        """Add a cost. A cost that is not finite counts as zero: the budget would never end otherwise."""
        self.spent_usd += cost_usd if isfinite(cost_usd) else 0.0


class PricedProvider(WrappedProvider):
    """Passes on requests whose price `provider` knows, and refuses all others. Closing it leaves the provider open.

    Raises:
        InputError: from `send`, if the model's price is unknown.
    """

    async def send(self, request: Request) -> Reply:
        self.check_price(request)
        return await super().send(request)


T = TypeVar("T")


class Deadline:
    """A deadline `limit_s` from now, or never if None. `attempts` are reported in its error."""

    def __init__(self, limit_s: float | None, *, attempts: Sequence[Attempt], clock: Clock) -> None:
        self._limit_s, self._attempts, self._clock = limit_s, attempts, clock
        self._ends_at_s = inf if limit_s is None else clock.monotonic_s() + limit_s

    @property
    def left_s(self) -> float:
        return inf if self._limit_s is None else self._ends_at_s - self._clock.monotonic_s()

    def meet(self, work: Callable[[], Awaitable[T]]) -> Awaitable[T]:
        """Return the result of `work` if it ends in time.

        Raises:
            DeadlineExceededError: it does not end in time, or there is no time left to start.
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


MINUTE_S = 60.0
SHORTEST_WAIT_S = 1e-6
POLL_S = 1.0


class RateLimit(Struct, frozen=True):
    """The limits of a provider per minute. None means no limit."""

    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise InputError(f"expected a number above zero, got {value!r}", source=name)


class TokenBucket:
    """A bucket that holds a minute's worth and fills evenly. It may be overdrawn if an estimate was too low."""

    def __init__(self, per_minute: float, *, clock: Clock) -> None:
        self._capacity, self._clock = per_minute, clock
        self._level = per_minute
        self._filled_at_s: float | None = None

    def wait_s(self, amount: float) -> float:
        """Return the seconds until `amount` (at most a full bucket) is available.

        A wait below the clock's resolution is zero.
        """
        self._fill()
        wait_s = (min(amount, self._capacity) - self._level) * MINUTE_S / self._capacity
        return wait_s if wait_s > SHORTEST_WAIT_S else 0.0

    def take(self, amount: float) -> None:
        """Take out `amount`; a negative amount is put back."""
        self._fill()
        self._level = min(self._level - amount, self._capacity)

    def _fill(self) -> None:
        """Add the tokens accrued since the last call: none if the clock is behind, as on another event loop."""
        now_s = self._clock.monotonic_s()
        if self._filled_at_s is not None:
            grown = max(0.0, now_s - self._filled_at_s) * self._capacity / MINUTE_S
            self._level = min(self._level + grown, self._capacity)
        self._filled_at_s = now_s


class RateLimitedProvider(WrappedProvider):
    """Calls `provider` at no more than the given rate. Callers wait in order of arrival.

    Tokens are estimated before a call (its text, and `max_tokens`) and corrected after it: to the usage, or to zero if
    the call failed before its first event. Without a reported usage, the estimate remains. Waiting callers check every
    second whether tokens were returned.
    """

    def __init__(self, provider: Provider, limit: RateLimit, *, clock: Clock) -> None:
        super().__init__(provider)
        self._clock = clock
        self._requests = _bucket(limit.requests_per_minute, clock)
        self._tokens = _bucket(limit.tokens_per_minute, clock)
        self._queue = asyncio.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def send(self, request: Request) -> Reply:
        estimate = estimated_tokens(request) if self._tokens is not None else 0
        # Locks cannot be shared between event loops: each loop has a queue of its own.
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._queue = loop, asyncio.Lock()
        async with self._queue:
            while wait_s := self._wait_s(estimate):
                await self._clock.sleep_s(min(wait_s, POLL_S))
            self._take(1, estimate)

        def ended(outcome: Response | BaseException) -> None:
            if isinstance(outcome, Response) and (used := outcome.usage.total_tokens):
                self._take(0, used - estimate)

        try:
            reply = await self._provider.send(request)
        except Exception:
            self._take(0, -estimate)
            raise
        return reply if self._tokens is None else notify_on_end(reply, ended)

    async def close(self) -> None:
        await self._provider.close()

    def _wait_s(self, tokens: int) -> float:
        waits = [bucket.wait_s(amount) for bucket, amount in ((self._requests, 1), (self._tokens, tokens)) if bucket]
        return max(waits, default=0.0)

    def _take(self, requests: int, tokens: int) -> None:
        if self._requests is not None:
            self._requests.take(requests)
        if self._tokens is not None:
            self._tokens.take(tokens)


def _bucket(per_minute: float | None, clock: Clock) -> TokenBucket | None:
    return None if per_minute is None else TokenBucket(per_minute, clock=clock)


def estimated_tokens(request: Request) -> int:
    """Estimate the tokens of a request: those of its texts, and `max_tokens`."""
    chars = sum(len(str(message.get("content") or "")) for message in request.messages)
    return estimate_tokens(chars) + (request.max_tokens or 0)
