"""Calls through AgentLoom's gateway, and to the provider behind it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import ModuleType
from typing import Any

from bench.contestants.gateway import CALL, WORDS, Asking, Case, Contender
from bench.workload import COST_USD, MAX_TOKENS, MODEL, TEMPERATURE

NO_LIMIT = 10**12


class _Instant:
    """What AgentLoom's gateway needs of a provider; answers at once, whole or in ten pieces."""

    name = "openai"

    def __init__(self, base: ModuleType) -> None:
        self._base = base
        self._response = base.ProviderResponse(
            content=CALL.answer, model=MODEL, provider="openai", cost_usd=COST_USD, finish_reason="stop"
        )

    def supports_model(self, _: str) -> bool:
        return True

    async def complete(self, **_: Any) -> Any:
        return self._response

    async def stream(self, **_: Any) -> Any:
        reply = self._base.StreamResponse(model=MODEL, provider=self.name)
        reply._set_iterator(_words())  # noqa: SLF001 - AgentLoom's own providers do the same
        return reply


async def _words() -> AsyncIterator[str]:
    for word in WORDS:
        yield word


def agentloom_gateway(module: ModuleType, base: ModuleType, case: Case) -> Contender:
    """Its gateway, which always has a breaker and rate limits, and no retries."""
    gateway = module.ProviderGateway()
    gateway.register(_Instant(base), max_rpm=NO_LIMIT, max_tpm=NO_LIMIT)
    return Contender("AgentLoom", _asking(_Instant(base), case), _asking(gateway, case))


def _asking(provider: Any, case: Case) -> Asking:
    arguments = {"messages": CALL.messages, "model": MODEL, "temperature": TEMPERATURE, "max_tokens": MAX_TOKENS}

    async def complete(times: int) -> None:
        for _ in range(times):
            await provider.complete(**arguments)

    async def stream(times: int) -> None:
        for _ in range(times):
            async for _ in await provider.stream(**arguments):
                pass

    return stream if case.stream else complete
