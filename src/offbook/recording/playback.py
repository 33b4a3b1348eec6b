"""Playing an exchange back: the reply it makes, in the time it should take."""

from __future__ import annotations

from collections.abc import AsyncIterator

from offbook.clock import Clock
from offbook.faults import StruckCall
from offbook.messages import Reply, Request, Response, StreamedReply, StreamEnd, StreamEvent, WholeReply
from offbook.recording.exchange import Exchange
from offbook.recording.latency import Latency


class Player:
    """Turns exchanges into replies."""

    def __init__(self, *, latency: Latency, clock: Clock, provider: str) -> None:
        self._latency, self._clock, self._provider = latency, clock, provider

    async def play(self, exchange: Exchange, request: Request) -> Reply:
        """The reply that `exchange` makes to `request`, or the failure that it recorded."""
        paced = self._latency.is_recorded and exchange.chunks is not None
        if exchange.fault is None and not request.stream:
            await self.wait(exchange.latency_ms)
            return WholeReply(self._response(exchange, request))
        if not paced:
            await self.wait(exchange.latency_ms)
        reply = StreamedReply(self._events(exchange, request, paced=paced))
        if exchange.fault is None:
            return reply

        async def clean() -> Reply:
            return reply

        return await exchange.fault.strike(StruckCall(request, clean, self._clock, exchange.provider or self._provider))

    async def wait(self, recorded_ms: float) -> None:
        """Let the time of a call pass that took `recorded_ms` when it was recorded."""
        if not self._latency.is_none:
            await self._clock.sleep_s(self._latency.delay_ms(recorded_ms) / 1000.0)

    async def _events(self, exchange: Exchange, request: Request, *, paced: bool) -> AsyncIterator[StreamEvent]:
        started_s = self._clock.monotonic_s()
        for at_ms, delta in exchange.timed_deltas():
            if paced:
                await self._clock.sleep_s(started_s + at_ms / 1000.0 - self._clock.monotonic_s())
            yield delta
        if paced:
            await self._clock.sleep_s(started_s + exchange.latency_ms / 1000.0 - self._clock.monotonic_s())
        yield StreamEnd(self._response(exchange, request))

    def _response(self, exchange: Exchange, request: Request) -> Response:
        return exchange.response(model=request.model, provider=self._provider)
