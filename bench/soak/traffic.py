"""Calls through a gateway whose providers fail by lot and whose callers leave by lot, the same lots every time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator

from msgspec import Struct

from offbook import (
    BreakerPolicy,
    FaultInjector,
    MockProvider,
    OffbookError,
    Provider,
    ProviderGateway,
    RateLimit,
    Request,
    RetryPolicy,
    chaos,
)
from offbook.events import Sink
from offbook.faults import (
    ConnectionReset,
    EmptyResponse,
    HttpError,
    MalformedResponse,
    StreamStall,
    StreamTruncate,
    Timeout,
)
from offbook.messages import Reply

STEPS, CALLERS = 100, 50
FAULTS = (
    HttpError(500),
    HttpError(503, headers={"retry-after": "2"}),
    HttpError(429, headers={"retry-after": "30"}),
    HttpError(400),
    ConnectionReset(),
    MalformedResponse("not valid json"),
    Timeout(after_ms=5000),
    StreamTruncate(0),
    StreamTruncate(2),
    StreamTruncate(1, "clean"),
    StreamStall(1, for_ms=8000),
    EmptyResponse(),
)
RESPONSES = {
    f"step {number}": {
        "content": f"The answer to question {number} is short.",
        "usage": {"prompt_tokens": 40, "completion_tokens": 8},
        "cost_usd": 0.0001,
    }
    for number in range(STEPS)
}


class Lot(Struct, frozen=True):
    """What is drawn for a call: the pause before it, whether it streams, when its caller leaves, what that reads."""

    pause_s: float
    stream: bool
    leaves_s: float | None
    reads: int | None

    @staticmethod
    def draw(seed: int, number: int) -> Lot:
        lot = random.Random(f"{seed}:{number}")
        leaves_s = lot.uniform(0.0, 20.0) if lot.random() < 0.15 else None
        return Lot(
            lot.uniform(0.0, 4.0), lot.random() < 0.5, leaves_s, lot.randrange(4) if lot.random() < 0.1 else None
        )


class Stage(Provider):
    """Asks whoever is on it. Mocks and injectors remember every call: a long run needs new ones now and then."""

    def __init__(self, name: str, *, seed: int, rate: float) -> None:
        self.name = name
        self._plan = chaos(seed=seed, rate=rate, faults=FAULTS)
        self.renew()

    def renew(self) -> None:
        mock = MockProvider(responses=RESPONSES, latency_model="normal", latency_ms=400.0)
        self._playing = FaultInjector(mock, self._plan)

    async def send(self, request: Request) -> Reply:
        return await self._playing.send(request)


class Traffic:
    """A gateway with two providers, and calls to it that depend on nothing but the seed and their number."""

    def __init__(self, *, seed: int, sink: Sink) -> None:
        self._seed = seed
        self._stages = [Stage("first", seed=seed, rate=0.6), Stage("second", seed=seed + 1, rate=0.5)]
        self.gateway = ProviderGateway(
            retry=RetryPolicy(seed=seed),
            breaker=BreakerPolicy(failures=5, reset_s=5.0),
            deadline_s=120.0,
            restart_streams=True,
            sink=sink,
        )
        limit = RateLimit(requests_per_minute=3000, tokens_per_minute=1_000_000)
        self.gateway.register(self._stages[0], rate_limit=limit)
        self.gateway.register(self._stages[1], is_fallback=True)

    async def flow(self, numbers: range) -> None:
        """Make the calls of these numbers, so many at once, and let an hour pass."""
        left = iter(numbers)
        await asyncio.gather(*(self._call_all(left) for _ in range(CALLERS)))
        for stage in self._stages:
            stage.renew()
        await asyncio.sleep(3600.0)

    async def _call_all(self, numbers: Iterator[int]) -> None:
        for number in numbers:
            await self._call(number, Lot.draw(self._seed, number))

    async def _call(self, number: int, lot: Lot) -> None:
        await asyncio.sleep(lot.pause_s)
        request = Request(
            ({"role": "user", "content": f"Question {number % STEPS}"},),
            "gpt-4o-mini",
            stream=lot.stream,
            step_id=f"step {number % STEPS}",
            call=number + 1,
        )
        try:
            async with asyncio.timeout(lot.leaves_s):
                await self._read(await self.gateway.send(request), lot.reads)
        except (OffbookError, TimeoutError):
            pass

    async def _read(self, reply: Reply, reads: int | None) -> None:
        try:
            if reads is None:
                await reply.collect()
            else:
                events = aiter(reply)
                for _ in range(reads):
                    await anext(events, None)
        finally:
            await reply.aclose()
