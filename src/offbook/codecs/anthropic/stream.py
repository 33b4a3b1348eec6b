"""Anthropic messages: streamed responses, and the codec that joins requests, responses and streams."""

from collections.abc import Iterable, Iterator

import orjson
from msgspec import Struct, field
from msgspec.structs import asdict, replace

from offbook.codecs.anthropic.request import decode_request, encode_request
from offbook.codecs.anthropic.response import (
    AnthropicUsage,
    ContentBlock,
    call_id,
    decode_error,
    decode_response,
    decode_stop_reason,
    decode_usage,
    encode_error,
    encode_finish_reason,
    encode_response,
    encode_usage,
    message_envelope,
    text_block,
    thinking_block,
    tool_use_block,
)
from offbook.codecs.base import NO_ID, Codec, content_blocks, decode_answer, stream_error, without_none
from offbook.codecs.framing import ServerSentEvent, SseDecoder, encode_sse_event
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


class _TypedEvent(Struct):
    type: str = ""


class _MessageHead(Struct):
    model: str = ""
    usage: AnthropicUsage | None = None


class _MessageStart(Struct):
    message: _MessageHead


class _BlockStart(Struct):
    index: int
    content_block: ContentBlock


class _ContentDelta(Struct):
    type: str
    text: str | None = None
    thinking: str | None = None
    partial_json: str | None = None


class _BlockDelta(Struct):
    index: int
    delta: _ContentDelta


class _MessageTail(Struct):
    stop_reason: str | None = None


class _MessageDelta(Struct):
    delta: _MessageTail = field(default_factory=_MessageTail)
    usage: AnthropicUsage | None = None


class AnthropicStreamDecoder:
    """Decodes message events. A stream is complete after its stop reason or `message_stop`."""

    def __init__(self) -> None:
        self._sse = SseDecoder()
        self._joined = Accumulator()
        self._call_count = 0
        self._call_of_block: dict[int, int] = {}
        self._model = ""
        self._usage = AnthropicUsage()
        self._finish_reason: str | None = None
        self._done = False

    def feed(self, data: bytes) -> Iterator[StreamDelta]:
        return self._take(self._sse.feed(data))

    def close(self) -> tuple[list[StreamDelta], Response]:
        deltas = list(self._take(self._sse.close()))
        if not self._done and self._finish_reason is None:
            raise incomplete_stream_error()
        rest = Response(model=self._model, usage=decode_usage(self._usage), finish_reason=self._finish_reason)
        return deltas, self._joined.join(rest)

    def _take(self, events: list[ServerSentEvent]) -> Iterator[StreamDelta]:
        for event in events:
            for delta in [] if self._done else self._read(event):
                self._joined.add(delta)
                yield delta

    def _read(self, event: ServerSentEvent) -> list[StreamDelta]:
        match _kind(event):
            case "content_block_delta":
                return self._continue(decode_answer(event.data, _BlockDelta))
            case "content_block_start":
                return self._open(decode_answer(event.data, _BlockStart))
            case "message_start":
                self._begin(decode_answer(event.data, _MessageStart).message)
            case "message_delta":
                self._end(decode_answer(event.data, _MessageDelta))
            case "message_stop":
                self._done = True
            case "error":
                raise stream_error(decode_error(event.data.encode()), raw=event.data)
        return []

    def _begin(self, opening: _MessageHead) -> None:
        self._model = opening.model
        self._count(opening.usage)

    def _end(self, ending: _MessageDelta) -> None:
        self._finish_reason = decode_stop_reason(ending.delta.stop_reason) or self._finish_reason
        self._count(ending.usage)

    def _count(self, usage: AnthropicUsage | None) -> None:
        """Counts are totals so far: a later count replaces an earlier one."""
        if usage is not None:
            self._usage = replace(self._usage, **without_none(asdict(usage)))

    def _open(self, start: _BlockStart) -> list[StreamDelta]:
        block = start.content_block
        if block.type != "tool_use":
            return _text_deltas(block.type, block.text, block.thinking)
        call_index = self._call_count
        self._call_count += 1
        if block.input:  # sent whole, so pieces that follow only repeat it
            return [ToolCallDelta(call_index, json_text(block.input), block.id, block.name)]
        self._call_of_block[start.index] = call_index
        return [ToolCallDelta(call_index, "", block.id, block.name)]

    def _continue(self, event: _BlockDelta) -> list[StreamDelta]:
        piece = event.delta
        if piece.type != "input_json_delta":
            return _text_deltas(piece.type.removesuffix("_delta"), piece.text, piece.thinking)
        call_index = self._call_of_block.get(event.index)
        return [ToolCallDelta(call_index, piece.partial_json)] if call_index is not None and piece.partial_json else []


def _kind(event: ServerSentEvent) -> str:
    """Return the event's type: its name if that is enough, else the type in its data."""
    if event.event in ("ping", "error"):
        return event.event
    return decode_answer(event.data, _TypedEvent).type or event.event


def _text_deltas(kind: str, text: str | None, thinking: str | None) -> list[StreamDelta]:
    if kind == "text" and text:
        return [TextDelta(text)]
    if kind == "thinking" and thinking:
        return [ReasoningDelta(thinking)]
    return []


def encode_stream(response: Response, deltas: Iterable[StreamDelta], *, id: str = NO_ID) -> Iterator[bytes]:
    """Encode a message's events, each delta in a block of its kind. The pieces of a tool call must be adjacent."""
    counted_first = replace(response.usage, completion_tokens=0, reasoning_tokens=0)
    yield _frame("message_start", {"message": message_envelope(response, id) | {"usage": encode_usage(counted_first)}})
    yield from _encode_blocks(deltas, id)
    end = {"stop_reason": encode_finish_reason(response.finish_reason), "stop_sequence": None}
    yield _frame("message_delta", {"delta": end, "usage": encode_usage(response.usage)})
    yield _frame("message_stop", {})


def _encode_blocks(deltas: Iterable[StreamDelta], id: str) -> Iterator[bytes]:
    for index, pieces in enumerate(content_blocks(deltas)):
        for position, delta in enumerate(pieces):
            if position == 0:
                yield _frame("content_block_start", {"index": index, "content_block": _encode_start(delta, id)})
            yield _frame("content_block_delta", {"index": index, "delta": _encode_delta(delta)})
        yield _frame("content_block_stop", {"index": index})


def _encode_start(delta: StreamDelta, id: str) -> JsonObject:
    match delta:
        case TextDelta():
            return text_block("")
        case ReasoningDelta():
            return thinking_block("")
        case ToolCallDelta(index, _, given, tool):
            return tool_use_block(given or call_id(id, index), tool)


def _encode_delta(delta: StreamDelta) -> JsonObject:
    match delta:
        case TextDelta(text):
            return {"type": "text_delta", "text": text}
        case ReasoningDelta(text):
            return {"type": "thinking_delta", "thinking": text}
        case ToolCallDelta(_, arguments):
            return {"type": "input_json_delta", "partial_json": arguments}


def _frame(kind: str, fields: JsonObject) -> bytes:
    return encode_sse_event(orjson.dumps({"type": kind} | fields), kind)


def encode_stream_error(message: str) -> bytes:
    return encode_sse_event(orjson.dumps(encode_error(500, message)), "error")


API_VERSION = "2023-06-01"


def auth_headers(api_key: str) -> dict[str, str]:
    key = {"x-api-key": api_key} if api_key else {}
    return {"anthropic-version": API_VERSION} | key


CODEC = Codec(
    name="anthropic",
    stream_type="text/event-stream; charset=utf-8",
    encode_request=encode_request,
    decode_request=decode_request,
    encode_response=encode_response,
    decode_response=decode_response,
    encode_stream=encode_stream,
    encode_stream_error=encode_stream_error,
    stream_decoder=AnthropicStreamDecoder,
    encode_error=encode_error,
    decode_error=decode_error,
    auth_headers=auth_headers,
)
"""The `/v1/messages` protocol."""
