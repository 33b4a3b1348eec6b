"""Calls through offbook's gateway, and to the provider behind it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeAlias

from msgspec import Struct

from bench.workload import MAX_TOKENS, MODEL, TEMPERATURE, call_at, response_of
from offbook import MemorySink, Provider, ProviderError, ProviderGateway, RateLimit, Request, StreamEnd, TextDelta
from offbook.messages import Reply, StreamedReply, WholeReply

CHUNKS = 10
CALL = call_at(0)
RESPONSE = response_of(CALL)
WORDS = [f"{word} " for word in CALL.answer.split()[:CHUNKS]]
FOR_EVER_S, NO_LIMIT = 1e9, 1e15

Asking: TypeAlias = Callable[[int], Awaitable[None]]
"""Makes so many calls, one after the other."""


class Contender(Struct, frozen=True):
    """A gateway: calls to the provider behind it, and calls through it."""

    name: str
    bare: Asking
    through: Asking


class Case(Struct, frozen=True):
    """What kind of call, and how often it fails before it is answered."""

    stream: bool
    retries: int

    def __str__(self) -> str:
        return f"{'stream' if self.stream else 'whole'}, {self.retries} {'retry' if self.retries == 1 else 'retries'}"


class Flaky(Provider):
    """Fails the first tries of every call, then answers at once: whole, or in ten pieces."""

    name = "flaky"

    def __init__(self, failures: int) -> None:
        self._failures, self._reply = failures, WholeReply(RESPONSE)

    async def send(self, request: Request) -> Reply:
        if request.attempt <= self._failures:
            raise ProviderError("HTTP 500", provider=self.name, status_code=500)
        return StreamedReply(_events()) if request.stream else self._reply


async def _events() -> AsyncIterator[TextDelta | StreamEnd]:
    for word in WORDS:
        yield TextDelta(word)
    yield StreamEnd(RESPONSE)


def offbook_gateways(case: Case) -> list[Contender]:
    """Our gateway: plain, with its events kept, with a deadline, and within rate limits."""
    limit = RateLimit(requests_per_minute=NO_LIMIT, tokens_per_minute=NO_LIMIT)
    return [
        _contender("offbook", ProviderGateway(breaker=None), case),
        _contender("offbook, events kept", ProviderGateway(breaker=None, sink=MemorySink()), case),
        _contender("offbook, deadline", ProviderGateway(breaker=None, deadline_s=FOR_EVER_S), case),
        _contender("offbook, rate limits", ProviderGateway(breaker=None), case, rate_limit=limit),
    ]


def _contender(name: str, gateway: ProviderGateway, case: Case, *, rate_limit: RateLimit | None = None) -> Contender:
    gateway.register(Flaky(case.retries), rate_limit=rate_limit)
    return Contender(name, _asking(Flaky(0), case), _asking(gateway, case))


def _asking(provider: Provider, case: Case) -> Asking:
    async def complete(times: int) -> None:
        for _ in range(times):
            await provider.complete(
                CALL.messages, MODEL, temperature=TEMPERATURE, max_tokens=MAX_TOKENS, step_id=CALL.step_id
            )

    async def stream(times: int) -> None:
        for _ in range(times):
            reply = await provider.stream(
                CALL.messages, MODEL, temperature=TEMPERATURE, max_tokens=MAX_TOKENS, step_id=CALL.step_id
            )
            async for _ in reply:
                pass

    return stream if case.stream else complete
