"""Gemini generateContent: streamed responses, and the codec that joins requests, responses and streams."""

from collections.abc import Iterable, Iterator

import orjson

from offbook.codecs.base import NO_ID, Codec, decode_answer, stream_error
from offbook.codecs.framing import ServerSentEvent, SseDecoder, encode_sse_event
from offbook.codecs.gemini.content import encode_call
from offbook.codecs.gemini.request import decode_request, encode_request
from offbook.codecs.gemini.response import (
    GenerateContentResponse,
    decode_deltas,
    decode_error,
    decode_response,
    decode_usage,
    encode_candidate,
    encode_error,
    encode_response,
    encode_usage,
    text_part,
    thought_part,
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
from offbook.text import shorten


class GeminiStreamDecoder:
    """Decodes frames that are each a partial response. A stream is complete after a frame with a finish reason."""

    def __init__(self) -> None:
        self._sse = SseDecoder()
        self._joined = Accumulator()
        self._rest = Response()
        self._calls = 0
        self._end: str | None = None

    def feed(self, data: bytes) -> Iterator[StreamDelta]:
        for event in self._sse.feed(data):
            yield from self._read(event)

    def close(self) -> tuple[list[StreamDelta], Response]:
        deltas = [delta for event in self._sse.close() for delta in self._read(event)]
        if self._end is None:
            raise incomplete_stream_error()
        return deltas, with_finish_reason(self._joined.join(self._rest), self._end)

    def _read(self, event: ServerSentEvent) -> list[StreamDelta]:
        answer = decode_answer(event.data, GenerateContentResponse)
        if answer.error is not None:
            raise stream_error(answer.error.get("message") or shorten(event.data), raw=event.data)
        self._note(answer)
        deltas = decode_deltas(answer.parts, calls_before=self._calls)
        for delta in deltas:
            self._joined.add(delta)
        self._calls += sum(isinstance(delta, ToolCallDelta) for delta in deltas)
        return deltas

    def _note(self, answer: GenerateContentResponse) -> None:
        self._end = answer.end or self._end
        self._rest = Response(
            model=self._rest.model or answer.model_version,
            usage=self._rest.usage if answer.usage_metadata is None else decode_usage(answer.usage_metadata),
        )


def encode_stream(response: Response, deltas: Iterable[StreamDelta], *, id: str = NO_ID) -> Iterator[bytes]:
    """Encode the deltas as frames. Tool calls are sent whole, after the text."""
    calls = Accumulator()
    for delta in deltas:
        match delta:
            case TextDelta(text):
                yield _frame(response, text_part(text), id)
            case ReasoningDelta(text):
                yield _frame(response, thought_part(text), id)
            case ToolCallDelta():
                calls.add(delta)
    for call in calls.join(response).tool_calls:
        yield _frame(response, encode_call(call), id)
    end = encode_candidate(response, [text_part("")], id=id) | {"usageMetadata": encode_usage(response.usage)}
    yield encode_sse_event(orjson.dumps(end))


def _frame(response: Response, part: JsonObject, id: str) -> bytes:
    return encode_sse_event(orjson.dumps(encode_candidate(response, [part], id=id, is_last=False)))


def encode_stream_error(message: str) -> bytes:
    return encode_sse_event(orjson.dumps(encode_error(500, message)))


def auth_headers(api_key: str) -> dict[str, str]:
    return {"x-goog-api-key": api_key} if api_key else {}


CODEC = Codec(
    name="gemini",
    stream_type="text/event-stream",
    encode_request=encode_request,
    decode_request=decode_request,
    encode_response=encode_response,
    decode_response=decode_response,
    encode_stream=encode_stream,
    encode_stream_error=encode_stream_error,
    stream_decoder=GeminiStreamDecoder,
    encode_error=encode_error,
    decode_error=decode_error,
    auth_headers=auth_headers,
)
"""The `:generateContent` and `:streamGenerateContent` protocol."""
