"""Anthropic messages by Bedrock's InvokeModel: Anthropic's bodies, with the model in the path and binary streams."""

from base64 import b64decode
from collections.abc import Iterable, Iterator

from offbook.codecs.anthropic import AnthropicStreamDecoder, decode_response, encode_response
from offbook.codecs.anthropic import decode_request as decode_anthropic_request
from offbook.codecs.anthropic import encode_request as encode_anthropic_request
from offbook.codecs.anthropic import encode_stream as encode_anthropic_stream
from offbook.codecs.base import NO_ID, Codec, OtherProtocolError, WireRequest
from offbook.codecs.bedrock import decode_error, encode_error, encode_stream_error, exception_error, model_in, path_of
from offbook.codecs.event_stream import (
    CHUNK,
    EVENT_STREAM_TYPE,
    EventMessage,
    EventStreamDecoder,
    chunk_bytes,
    encode_event,
)
from offbook.codecs.framing import SseDecoder, encode_sse_event
from offbook.errors import MalformedResponseError
from offbook.messages import Request, Response, StreamDelta

BEDROCK_VERSION = "bedrock-2023-05-31"
_VERSION, _NOT_IN_BODY = "anthropic_version", ("model", "stream")


def encode_request(request: Request) -> WireRequest:
    body = encode_anthropic_request(request).body
    fields = {name: value for name, value in body.items() if name not in _NOT_IN_BODY}
    return WireRequest(path_of(request, "invoke", "invoke-with-response-stream"), {_VERSION: BEDROCK_VERSION} | fields)


def decode_request(wire: WireRequest) -> Request:
    model, is_streamed = model_in(wire.path)
    if _VERSION not in wire.body:
        raise OtherProtocolError(f"a body without {_VERSION} is not for a model of Anthropic", source="request body")
    fields = {name: value for name, value in wire.body.items() if name != _VERSION}
    return decode_anthropic_request(WireRequest(wire.path, fields | {"model": model, "stream": is_streamed}))


class BedrockAnthropicStreamDecoder:
    """Decodes chunks whose bytes are the events of an Anthropic message."""

    def __init__(self) -> None:
        self._messages, self._events = EventStreamDecoder(), AnthropicStreamDecoder()

    def feed(self, data: bytes) -> Iterator[StreamDelta]:
        for message in self._messages.feed(data):
            yield from self._events.feed(encode_sse_event(_event_in(message)))

    def close(self) -> tuple[list[StreamDelta], Response]:
        return self._events.close()


def _event_in(message: EventMessage) -> bytes:
    if message.is_exception:
        raise exception_error(message)
    try:
        return b64decode(chunk_bytes(message.payload), validate=True)
    except ValueError as error:
        raw = message.payload.decode("utf-8", "replace")
        raise MalformedResponseError(f"not a chunk: {error}", raw=raw) from None


def encode_stream(response: Response, deltas: Iterable[StreamDelta], *, id: str = NO_ID) -> Iterator[bytes]:
    for frame in encode_anthropic_stream(response, deltas, id=id):
        yield from (encode_event(CHUNK, event.data.encode()) for event in SseDecoder().feed(frame))


CODEC = Codec(
    name="bedrock_anthropic",
    stream_type=EVENT_STREAM_TYPE,
    encode_request=encode_request,
    decode_request=decode_request,
    encode_response=encode_response,
    decode_response=decode_response,
    encode_stream=encode_stream,
    encode_stream_error=encode_stream_error,
    stream_decoder=BedrockAnthropicStreamDecoder,
    encode_error=encode_error,
    decode_error=decode_error,
)
"""The `/model/{model}/invoke` protocol of Anthropic's models."""
