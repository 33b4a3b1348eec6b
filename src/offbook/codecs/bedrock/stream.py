"""Bedrock ConverseStream: streamed responses, and the codec that joins requests, responses and streams."""

from collections.abc import Iterable, Iterator

import orjson
from msgspec import Struct, field

from offbook.codecs.base import NO_ID, Codec, content_blocks, decode_answer, stream_error
from offbook.codecs.bedrock.request import decode_request, encode_request
from offbook.codecs.bedrock.response import (
    ConverseUsage,
    ToolUse,
    call_id,
    decode_error,
    decode_response,
    decode_stop_reason,
    decode_usage,
    encode_error,
    encode_finish_reason,
    encode_response,
    encode_usage,
)
from offbook.codecs.event_stream import (
    EVENT_STREAM_TYPE,
    EventMessage,
    EventStreamDecoder,
    encode_event,
    encode_exception,
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
)

STREAM_ERROR = "modelStreamErrorException"


class _BlockStart(Struct):
    tool_use: ToolUse | None = field(default=None, name="toolUse")


class _ContentBlockStart(Struct):
    index: int = field(name="contentBlockIndex")
    start: _BlockStart = field(default_factory=_BlockStart)


class _ToolUseDelta(Struct):
    input: str = ""


class _ReasoningPiece(Struct):
    text: str | None = None


class _BlockDelta(Struct):
    text: str | None = None
    tool_use: _ToolUseDelta | None = field(default=None, name="toolUse")
    reasoning: _ReasoningPiece | None = field(default=None, name="reasoningContent")


class _ContentBlockDelta(Struct):
    index: int = field(name="contentBlockIndex")
    delta: _BlockDelta


class _MessageStop(Struct):
    stop_reason: str | None = field(default=None, name="stopReason")


class _Metadata(Struct):
    usage: ConverseUsage = field(default_factory=ConverseUsage)


def exception_error(message: EventMessage) -> ProviderError:
    """Return the error for an exception inside a stream."""
    raw = message.payload.decode("utf-8", "replace")
    return stream_error(f"{message.name}: {decode_error(message.payload)}", raw=raw)


class BedrockStreamDecoder:
    """Decodes the events of a message. A stream is complete after `messageStop`; its usage follows."""

    def __init__(self) -> None:
        self._events = EventStreamDecoder()
        self._joined = Accumulator()
        self._call_of_block: dict[int, int] = {}
        self._usage = ConverseUsage()
        self._finish_reason: str | None = None
        self._done = False

    def feed(self, data: bytes) -> Iterator[StreamDelta]:
        for message in self._events.feed(data):
            for delta in self._read(message):
                self._joined.add(delta)
                yield delta

    def close(self) -> tuple[list[StreamDelta], Response]:
        if not self._done:
            raise incomplete_stream_error()
        rest = Response(usage=decode_usage(self._usage), finish_reason=self._finish_reason)
        return [], self._joined.join(rest)

    def _read(self, message: EventMessage) -> list[StreamDelta]:
        if message.is_exception:
            raise exception_error(message)
        match message.name:
            case "contentBlockDelta":
                return self._continue(decode_answer(message.payload, _ContentBlockDelta))
            case "contentBlockStart":
                return self._open(decode_answer(message.payload, _ContentBlockStart))
            case "messageStop":
                self._finish_reason = decode_stop_reason(decode_answer(message.payload, _MessageStop).stop_reason)
                self._done = True
            case "metadata":
                self._usage = decode_answer(message.payload, _Metadata).usage
        return []

    def _open(self, event: _ContentBlockStart) -> list[StreamDelta]:
        use = event.start.tool_use
        if use is None:
            return []
        call_index = self._call_of_block[event.index] = len(self._call_of_block)
        return [ToolCallDelta(call_index, "", use.tool_use_id or None, use.name)]

    def _continue(self, event: _ContentBlockDelta) -> list[StreamDelta]:
        piece = event.delta
        if piece.text:
            return [TextDelta(piece.text)]
        if piece.reasoning is not None and piece.reasoning.text:
            return [ReasoningDelta(piece.reasoning.text)]
        call_index = self._call_of_block.get(event.index)
        if piece.tool_use is None or not piece.tool_use.input or call_index is None:
            return []
        return [ToolCallDelta(call_index, piece.tool_use.input)]


def encode_stream(response: Response, deltas: Iterable[StreamDelta], *, id: str = NO_ID) -> Iterator[bytes]:
    """Encode a message's events, each delta in a block of its kind. The pieces of a tool call must be adjacent."""
    yield _frame("messageStart", {"role": "assistant"})
    for index, pieces in enumerate(content_blocks(deltas)):
        yield from _encode_block(index, pieces, id)
    yield _frame("messageStop", {"stopReason": encode_finish_reason(response.finish_reason)})
    yield _frame("metadata", {"usage": encode_usage(response.usage), "metrics": {"latencyMs": 0}})


def _encode_block(index: int, pieces: Iterable[StreamDelta], id: str) -> Iterator[bytes]:
    """Encode one block. Only those of tool calls have a start."""
    place = {"contentBlockIndex": index}
    for position, delta in enumerate(pieces):
        if position == 0 and isinstance(delta, ToolCallDelta):
            use = {"toolUseId": delta.id or call_id(id, delta.index), "name": delta.tool or ""}
            yield _frame("contentBlockStart", {"start": {"toolUse": use}} | place)
        yield _frame("contentBlockDelta", {"delta": _encode_delta(delta)} | place)
    yield _frame("contentBlockStop", place)


def _encode_delta(delta: StreamDelta) -> JsonObject:
    match delta:
        case TextDelta(text):
            return {"text": text}
        case ReasoningDelta(text):
            return {"reasoningContent": {"text": text}}
        case ToolCallDelta(_, arguments):
            return {"toolUse": {"input": arguments}}


def _frame(name: str, fields: JsonObject) -> bytes:
    return encode_event(name, orjson.dumps(fields))


def encode_stream_error(message: str) -> bytes:
    return encode_exception(STREAM_ERROR, orjson.dumps({"message": message}))


CODEC = Codec(
    name="bedrock",
    stream_type=EVENT_STREAM_TYPE,
    encode_request=encode_request,
    decode_request=decode_request,
    encode_response=encode_response,
    decode_response=decode_response,
    encode_stream=encode_stream,
    encode_stream_error=encode_stream_error,
    stream_decoder=BedrockStreamDecoder,
    encode_error=encode_error,
    decode_error=decode_error,
)
"""The `/model/{model}/converse` protocol. Keys are those of Bedrock; requests without one are signed."""
