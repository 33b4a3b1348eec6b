"""Ollama chat: streamed responses, and the codec that joins requests, responses and streams."""

from collections.abc import Iterable, Iterator

import orjson

from offbook.codecs.base import NO_ID, bearer_auth, decode_answer, stream_error
from offbook.codecs.framing import NdjsonDecoder, encode_ndjson_line
from offbook.codecs.ollama.request import decode_request, encode_calls, encode_request
from offbook.codecs.ollama.response import (
    ChatResponse,
    decode_deltas,
    decode_error,
    decode_response,
    encode_end,
    encode_error,
    encode_partial_response,
    encode_response,
    with_finish_reason,
)
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


class OllamaStreamDecoder:
    """Decodes lines that are each a partial response. A stream is complete after a line that is `done`."""

    def __init__(self) -> None:
        self._lines = NdjsonDecoder()
        self._joined = Accumulator()
        self._calls = 0
        self._last = ChatResponse()

    def feed(self, data: bytes) -> Iterator[StreamDelta]:
        for line in self._lines.feed(data):
            yield from self._read(line)

    def close(self) -> tuple[list[StreamDelta], Response]:
        deltas = [delta for line in self._lines.close() for delta in self._read(line)]
        if not self._last.done:
            raise incomplete_stream_error()
        rest = Response(model=self._last.model, usage=self._last.usage)
        return deltas, with_finish_reason(self._joined.join(rest), self._last.done_reason)

    def _read(self, line: bytes) -> list[StreamDelta]:
        answer = decode_answer(line, ChatResponse)
        if answer.error is not None:
            raise stream_error(answer.error, raw=line.decode("utf-8", "replace"))
        self._last = answer
        deltas = [] if answer.message is None else decode_deltas(answer.message, calls_before=self._calls)
        for delta in deltas:
            self._joined.add(delta)
        self._calls += sum(isinstance(delta, ToolCallDelta) for delta in deltas)
        return deltas


def encode_stream(response: Response, deltas: Iterable[StreamDelta], *, id: str = NO_ID) -> Iterator[bytes]:
    """Encode the deltas as lines. Tool calls are sent whole, after the text. The protocol has no ids."""
    calls = Accumulator()
    for delta in deltas:
        match delta:
            case TextDelta(text):
                yield _line(encode_partial_response(response, {"content": text}))
            case ReasoningDelta(text):
                yield _line(encode_partial_response(response, {"content": "", "thinking": text}))
            case ToolCallDelta():
                calls.add(delta)
    for call in encode_calls(calls.join(response).tool_calls):
        yield _line(encode_partial_response(response, {"content": "", "tool_calls": [call]}))
    yield _line(encode_partial_response(response, {"content": ""}) | encode_end(response))


def _line(answer: JsonObject) -> bytes:
    return encode_ndjson_line(orjson.dumps(answer))


def encode_stream_error(message: str) -> bytes:
    return _line(encode_error(500, message))


class OllamaCodec:
    """The `/api/chat` protocol."""

    name = "ollama"
    stream_type = "application/x-ndjson"
    encode_request = staticmethod(encode_request)
    decode_request = staticmethod(decode_request)
    encode_response = staticmethod(encode_response)
    decode_response = staticmethod(decode_response)
    encode_stream = staticmethod(encode_stream)
    encode_stream_error = staticmethod(encode_stream_error)
    stream_decoder = OllamaStreamDecoder
    encode_error = staticmethod(encode_error)
    decode_error = staticmethod(decode_error)
    auth_headers = staticmethod(bearer_auth)
