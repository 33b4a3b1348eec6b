"""The model calls of an agent, told apart from those of the user and the judge of its conversation."""

from __future__ import annotations

from msgspec.structs import replace

from offbook.events import NULL_SINK, Sink
from offbook.gateway.gateway import ProviderGateway
from offbook.gateway.retry import RetryPolicy
from offbook.messages import Reply, Request
from offbook.providers.provider import Provider
from offbook.scenarios.target import Dialogue, Stage, Target
from offbook.scenarios.target.target import AGENT_STEP


class AgentCalls(Provider):
    """Passes calls on under the step `agent`, or `agent.<step>` where they have a step of their own."""

    def __init__(self, provider: Provider) -> None:
        self.name = provider.name
        self._provider = provider

    async def send(self, request: Request) -> Reply:
        own = "" if request.step_id in (None, "", AGENT_STEP) else f".{request.step_id}"
        return await self._provider.send(replace(request, step_id=f"{AGENT_STEP}{own}"))


class CastAgent:
    """An agent whose model calls are kept apart, and tried again as `retry` says; None is not at all."""

    def __init__(self, target: Target, *, retry: RetryPolicy | None, sink: Sink = NULL_SINK) -> None:
        self.name, self._target, self._retry, self._sink = target.name, target, retry, sink

    def begin(self, stage: Stage) -> Dialogue:
        if stage.provider is None:
            return self._target.begin(stage)
        calls = AgentCalls(stage.provider)
        provider = calls if self._retry is None else retrying(calls, self._retry, sink=self._sink)
        return self._target.begin(Stage(stage.tools, provider))


def retrying(provider: Provider, retry: RetryPolicy, *, sink: Sink = NULL_SINK) -> ProviderGateway:
    """The provider behind a gateway that tries failed calls again."""
    gateway = ProviderGateway(retry=retry, breaker=None, sink=sink)
    gateway.register(provider)
    return gateway
