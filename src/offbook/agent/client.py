"""The seam between the loop and a model: what a client is asked, and what it answers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from enum import StrEnum
from typing import Protocol, TypeAlias

from msgspec import Struct

from offbook.argument import described
from offbook.errors import InputError
from offbook.messages import JsonObject, Response, ToolCall
from offbook.tools import ToolSpec


class TextResponse(Struct, frozen=True):
    """A model's answer that is text alone."""

    content: str


LLMResponse: TypeAlias = list[ToolCall] | TextResponse | Response


class ChunkType(StrEnum):
    """What a chunk of a stream is. RESTART voids what came before it; FINAL is the last."""

    TEXT_DELTA = "text_delta"
    REASONING_DELTA = "reasoning_delta"
    TOOL_CALL_DELTA = "tool_call_delta"
    RESTART = "restart"
    FINAL = "final"


class StreamChunk(Struct, frozen=True):
    """A piece of an answer on its way. `response` is set on the FINAL chunk alone."""

    type: ChunkType
    content: str = ""
    response: LLMResponse | None = None


class LLMClient(Protocol):
    """What a runner talks to.

    `messages` is in the OpenAI chat shape with arguments as objects. It is a view that never changes
    later; whoever needs a list makes one of it.
    """

    async def send(self, messages: Sequence[JsonObject], tools: list[ToolSpec] | None = None) -> LLMResponse: ...

    def send_stream(
        self, messages: Sequence[JsonObject], tools: list[ToolSpec] | None = None
    ) -> AsyncIterator[StreamChunk]: ...


def response_of(answer: LLMResponse | ToolCall) -> Response:
    """What a client answered, as a Response.

    Raises:
        InputError: it is none of the shapes that a client may answer in.
    """
    if isinstance(answer, Response):
        for call in answer.tool_calls:
            if not isinstance(call, ToolCall):
                raise _unfit(f"a Response with {described(call)} among its calls")
        return answer
    if isinstance(answer, TextResponse):
        return Response(answer.content)
    calls = (answer,) if isinstance(answer, ToolCall) else answer
    if isinstance(calls, list | tuple) and all([isinstance(call, ToolCall) for call in calls]):  # noqa: C419 - quicker
        return Response(tool_calls=tuple(calls))
    raise _unfit(described(answer))


def _unfit(given: str) -> InputError:
    hint = "answer with a list of ToolCall, a TextResponse or a Response; read_response() reads what SDKs give"
    return InputError(f"expected tool calls or text, got {given}", source="client", hint=hint)
