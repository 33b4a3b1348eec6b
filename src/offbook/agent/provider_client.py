"""A client on top of any provider: how a loop gets onto the one path that is recorded, replayed and broken."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from offbook.agent.client import ChunkType, StreamChunk
from offbook.messages import (
    NO_EXTRA,
    JsonObject,
    ReasoningDelta,
    Request,
    Response,
    StreamEnd,
    StreamEvent,
    StreamRestart,
    TextDelta,
    WholeReply,
)
from offbook.providers.provider import Provider
from offbook.tools import ToolSpec


class ProviderClient:
    """Asks a provider, be it a gateway, a recorder, a replay or a vendor.

    Args:
        model: the model's name, as its provider spells it.
        step_id: names the calls in a recording; all calls of a run are kept under it, in order.
        temperature, max_tokens, tool_choice, extra: as for `Provider.complete`.
        workflow: names the agent in events and metrics.
    """

    def __init__(
        self,
        provider: Provider,
        model: str,
        *,
        step_id: str | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        tool_choice: str | JsonObject | None = None,
        extra: Mapping[str, Any] = NO_EXTRA,
        workflow: str = "",
    ) -> None:
        self._provider, self._model, self._step_id = provider, model, step_id
        self._temperature, self._max_tokens, self._tool_choice = temperature, max_tokens, tool_choice
        self._extra, self._workflow = extra, workflow

    async def send(self, messages: Sequence[JsonObject], tools: list[ToolSpec] | None = None) -> Response:
        reply = await self._provider.send(self._request(messages, tools, stream=False))
        return reply.response if isinstance(reply, WholeReply) else await reply.collect()

    async def send_stream(
        self, messages: Sequence[JsonObject], tools: list[ToolSpec] | None = None
    ) -> AsyncIterator[StreamChunk]:
        reply = await self._provider.send(self._request(messages, tools, stream=True))
        try:
            async for event in reply:
                yield _chunk_of(event)
        finally:
            await reply.aclose()

    def _request(self, messages: Sequence[JsonObject], tools: list[ToolSpec] | None, *, stream: bool) -> Request:
        return Request(
            tuple(messages),
            self._model,
            self._temperature,
            self._max_tokens,
            tuple([spec.function for spec in tools or ()]),
            self._tool_choice,
            self._extra,
            stream,
            self._step_id,
            workflow=self._workflow,
        )


def _chunk_of(event: StreamEvent) -> StreamChunk:
    match event:
        case TextDelta(text):
            return StreamChunk(ChunkType.TEXT_DELTA, text)
        case ReasoningDelta(text):
            return StreamChunk(ChunkType.REASONING_DELTA, text)
        case StreamRestart(reason):
            return StreamChunk(ChunkType.RESTART, reason)
        case StreamEnd(response):
            return StreamChunk(ChunkType.FINAL, response=response)
        case _:
            return StreamChunk(ChunkType.TOOL_CALL_DELTA, event.arguments)
