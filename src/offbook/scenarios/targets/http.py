"""Agents behind an HTTP endpoint that speaks chat completions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from offbook.errors import ProviderError, TargetError
from offbook.messages import JsonObject, Request, Response
from offbook.providers.provider import Provider
from offbook.scenarios.targets.target import AGENT_STEP, AgentEnvironment, ToolLoop


class HttpTarget:
    """An agent that answers POSTed conversations, in the shape of OpenAI's chat completions.

    Args:
        provider: asks the endpoint; recorded or replayed, it is what a conversation gives instead of it.
        model: what the endpoint is asked for, if it cares.
        body: further fields of every request.
        stream: whether to ask for a stream.
    """

    def __init__(
        self,
        name: str,
        provider: Provider,
        *,
        model: str = "agent",
        body: Mapping[str, Any] | None = None,
        stream: bool = False,
    ) -> None:
        self.name = name
        self._provider, self._model, self._body, self._stream = provider, model, dict(body or {}), stream

    def begin(self, stage: AgentEnvironment) -> ToolLoop:
        provider = stage.provider or self._provider

        async def ask(messages: list[JsonObject]) -> Response:
            request = Request(tuple(messages), self._model, extra=self._body, stream=self._stream, step_id=AGENT_STEP)
            try:
                reply = await provider.send(request)
                return await reply.collect()
            except ProviderError as error:
                raise TargetError(f"the agent's endpoint failed: {error}") from error

        return ToolLoop(ask, stage.tools)
