"""OpenAI chat completions: streamed responses, and the codec that joins requests, responses and streams."""

from collections.abc import Iterable, Iterator
from typing import Any

import orjson
from msgspec import Struct, field

from offbook.codecs.base import NO_ID, bearer_auth, decode_answer, stream_error, without_none
from offbook.codecs.framing import ServerSentEvent, SseDecoder, encode_sse_event
from offbook.codecs.openai_chat.request import decode_request, encode_request
from offbook.codecs.openai_chat.response import (
    MessageShape,
    OpenAIUsage,
    ToolCallShape,
    call_id,
    decode_error,
    decode_response,
    decode_usage,
    encode_error,
    encode_response,
    encode_usage,
    response_id,
    text_of,
)
from offbook.errors import ProviderError
from offbook.messages import (
    Accumulator,
    JsonObject,
    ReasoningDelta,
    Response,
    StreamDelta,
    TextDelta,
    ToolCallDelta,
    incomplete_stream_error,
    json_text,
)
from offbook.text import shorten

DONE = "[DONE]"


class _ChunkChoice(Struct):
    delta: MessageShape = field(default_factory=MessageShape)
    finish_reason: str | None = None
    index: int = 0


class _Chunk(Struct):
    choices: list[_ChunkChoice] = field(default_factory=list)
    model: str = ""
    usage: OpenAIUsage | None = None
    error: dict[str, Any] | str | None = None


class OpenAIChatStreamDecoder:
    """Decodes chat completion chunks. A stream is complete after its finish reason or `[DONE]`."""

    def __init__(self) -> None:
        self._sse = SseDecoder()
        self._joined = Accumulator()
        self._rest = Response(finish_reason=None)
        self._done = False

    def feed(self, data: bytes) -> Iterator[StreamDelta]:
        for event in self._sse.feed(data):
            yield from self._read(event)

    def close(self) -> tuple[list[StreamDelta], Response]:
        deltas = [delta for event in self._sse.close() for delta in self._read(event)]
        if not self._done and self._rest.finish_reason is None:
            raise incomplete_stream_error()
        return deltas, self._joined.join(self._rest)

    def _read(self, event: ServerSentEvent) -> list[StreamDelta]:
        if event.data.strip() == DONE:
            self._done = True
        if self._done:
            return []
        chunk = decode_answer(event.data, _Chunk)
        if chunk.error is not None:
            raise _reported_error(chunk.error, event.data)
        self._note(chunk)
        deltas = [delta for choice in chunk.choices if choice.index == 0 for delta in _deltas(choice.delta)]
        for delta in deltas:
            self._joined.add(delta)
        return deltas

    def _note(self, chunk: _Chunk) -> None:
        finish_reason = next((c.finish_reason for c in chunk.choices if c.index == 0 and c.finish_reason), None)
        self._rest = Response(
            model=self._rest.model or chunk.model,
            usage=self._rest.usage if chunk.usage is None else decode_usage(chunk.usage),
            finish_reason=finish_reason or self._rest.finish_reason,
        )


def _reported_error(error: dict[str, Any] | str, raw: str) -> ProviderError:
    message = error if isinstance(error, str) else str(error.get("message") or shorten(raw))
    return stream_error(message, raw=raw)


def _deltas(message: MessageShape) -> list[StreamDelta]:
    deltas: list[StreamDelta] = []
    if reasoning := message.reasoning_content or message.reasoning:
        deltas.append(ReasoningDelta(reasoning))
    if text := text_of(message.content) or message.refusal:
        deltas.append(TextDelta(text))
    deltas.extend(_call_delta(call, position) for position, call in enumerate(message.tool_calls or ()))
    return deltas


def _call_delta(call: ToolCallShape, position: int) -> ToolCallDelta:
    arguments = call.function.arguments
    text = json_text(arguments) if isinstance(arguments, dict) else arguments or ""
    return ToolCallDelta(position if call.index is None else call.index, text, call.id, call.function.name or None)


def encode_stream(response: Response, deltas: Iterable[StreamDelta], *, id: str = NO_ID) -> Iterator[bytes]:
    envelope = {"id": response_id(id), "object": "chat.completion.chunk", "created": 0, "model": response.model}
    yield _frame(envelope, {"role": "assistant", "content": ""})
    for delta in deltas:
        yield _frame(envelope, _encode_delta(delta, id))
    yield _frame(envelope, {}, finish_reason=response.finish_reason)
    usage = {"choices": [], "usage": encode_usage(response.usage)}
    yield encode_sse_event(orjson.dumps(envelope | usage))
    yield encode_sse_event(DONE.encode())


def _frame(envelope: JsonObject, delta: JsonObject, finish_reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
    return encode_sse_event(orjson.dumps(envelope | {"choices": [choice]}))


def _encode_delta(delta: StreamDelta, id: str) -> JsonObject:
    match delta:
        case TextDelta(text):
            return {"content": text}
        case ReasoningDelta(text):
            return {"reasoning_content": text}
        case ToolCallDelta(index, arguments, None, None):
            return {"tool_calls": [{"index": index, "function": {"arguments": arguments}}]}
        case ToolCallDelta(index, arguments, given, tool):
            function = without_none({"name": tool, "arguments": arguments})
            call = {"index": index, "id": given or call_id(id, index), "type": "function", "function": function}
            return {"tool_calls": [call]}


def encode_stream_error(message: str) -> bytes:
    return encode_sse_event(orjson.dumps(encode_error(500, message)))


def is_usage_frame(frame: bytes) -> bool:
    """Return whether the frame contains only usage, which is sent only to clients that ask for it."""
    return b'"choices":[]' in frame


class OpenAIChatCodec:
    """The `/chat/completions` protocol."""

    name = "openai_chat"
    stream_type = "text/event-stream; charset=utf-8"
    encode_request = staticmethod(encode_request)
    decode_request = staticmethod(decode_request)
    encode_response = staticmethod(encode_response)
    decode_response = staticmethod(decode_response)
    encode_stream = staticmethod(encode_stream)
    encode_stream_error = staticmethod(encode_stream_error)
    stream_decoder = OpenAIChatStreamDecoder
    encode_error = staticmethod(encode_error)
    decode_error = staticmethod(decode_error)
    auth_headers = staticmethod(bearer_auth)
