"""Encodes a recorded exchange, a model response or an error in the protocol of the client."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import orjson

from offbook.codecs.base import NO_ID, Codec
from offbook.codecs.openai_chat.stream import is_usage_frame
from offbook.errors import RequestError
from offbook.messages import Response, StreamDelta
from offbook.recording.format.exchange import Exchange
from offbook.recording.format.wire_record import WireRecord
from offbook.wire.request import ParsedRequest
from offbook.wire.response import JSON_TYPE, Frame, HttpResponse, whole_response

ID_CHARS = 24
_REQUEST_ID_HEADERS = {"openai_chat": "x-request-id", "openai_responses": "x-request-id", "anthropic": "request-id"}


def has_wire_bytes(exchange: Exchange, asked: ParsedRequest) -> bool:
    """Whether the exchange holds the very bytes that answer such a call: of its protocol, streamed as it asks."""
    wire = exchange.wire
    if wire is None or wire.protocol != asked.route.protocol:
        return False
    if wire.status != 200 or asked.request is None:
        return True
    is_array = wire.is_streamed and wire.headers.get("content-type", "").startswith(JSON_TYPE)
    return wire.is_streamed == asked.is_streamed and is_array == asked.is_array


def recorded_response(wire: WireRecord) -> HttpResponse:
    """The bytes as they came."""
    frames = tuple(wire.timed_frames())
    return HttpResponse(
        wire.status, dict(wire.headers), frames, wire.is_streamed, end_ms=frames[-1][0] if frames else 0.0
    )


def encode_exchange(exchange: Exchange, asked: ParsedRequest) -> HttpResponse:
    """The exchange's canonical fields in the protocol of the call."""
    request, codec = asked.request, asked.route.codec
    if request is None or codec is None:
        raise RequestError(asked.problem or "the entry has no bytes for a call of plain HTTP", source=asked.place)
    response = exchange.response(model=request.model, provider="")
    if not request.stream:
        return _encode_whole_response(response, asked, codec)
    return encode_streamed_response(response, exchange.timed_deltas(), asked, codec, end_ms=exchange.latency_ms)


def encode_model_response(
    response: Response, deltas: Iterable[StreamDelta], asked: ParsedRequest, codec: Codec
) -> HttpResponse:
    """A response in the protocol of the call, streamed if it asks so."""
    if not asked.is_streamed:
        return _encode_whole_response(response, asked, codec)
    return encode_streamed_response(response, [(0.0, delta) for delta in deltas], asked, codec)


def _encode_whole_response(response: Response, asked: ParsedRequest, codec: Codec) -> HttpResponse:
    body = orjson.dumps(codec.encode_response(response, id=_response_id(asked)))
    return whole_response(200, body, headers=_request_id_header(codec, _response_id(asked)))


def _response_id(asked: ParsedRequest) -> str:
    """What sets the answers of a run apart: clients take two messages with the same id for one."""
    return asked.request_hash[:ID_CHARS]


def _request_id_header(codec: Codec, id: str) -> dict[str, str]:
    """The header by which the vendor names a request, where its SDK looks for one."""
    name = _REQUEST_ID_HEADERS.get(codec.name)
    return {} if name is None else {name: f"req_{id}"}


def encode_streamed_response(
    response: Response,
    deltas: Iterable[tuple[float, StreamDelta]],
    asked: ParsedRequest,
    codec: Codec,
    *,
    end_ms: float = 0.0,
) -> HttpResponse:
    """A response as frames. A frame is due with the delta that it tells, those behind the last delta at `end_ms`."""
    frames = list(_timed_frames(codec, response, list(deltas), end_ms=end_ms, id=_response_id(asked)))
    if codec.name == "openai_chat" and not asked.wants_usage:
        frames = [frame for frame in frames if not is_usage_frame(frame[1])]
    if asked.is_array:
        return HttpResponse(
            200, {"content-type": JSON_TYPE}, tuple(_array_frames(frames)), is_streamed=True, end_ms=end_ms
        )
    headers = {"content-type": codec.stream_type} | _request_id_header(codec, _response_id(asked))
    return HttpResponse(200, headers, tuple(frames), is_streamed=True, end_ms=end_ms)


def _timed_frames(
    codec: Codec, response: Response, deltas: list[tuple[float, StreamDelta]], *, end_ms: float, id: str
) -> Iterator[Frame]:
    at_ms = 0.0

    def told() -> Iterator[StreamDelta]:
        nonlocal at_ms
        for due_ms, delta in deltas:
            at_ms = due_ms
            yield delta
        at_ms = max(at_ms, end_ms)

    for frame in codec.encode_stream(response, told(), id=id):
        yield at_ms, frame


def _array_frames(frames: list[Frame]) -> Iterator[Frame]:
    """Server-sent events as the pieces of one JSON array, which is what Gemini streams to who asks for no events."""
    for index, (at_ms, frame) in enumerate(frames):
        yield at_ms, array_piece(frame, is_first=index == 0, is_last=index == len(frames) - 1)


def array_piece(event: bytes, *, is_first: bool, is_last: bool) -> bytes:
    """A server-sent event as a piece of such an array."""
    data = event.removeprefix(b"data: ").rstrip()
    return (b"[" if is_first else b",\r\n") + data + (b"]" if is_last else b"")


def error_response(codec: Codec, status: int, message: str, *, headers: dict[str, str] | None = None) -> HttpResponse:
    """An error in the vendor's shape."""
    told = _request_id_header(codec, NO_ID) | (headers or {})
    return whole_response(status, orjson.dumps(codec.encode_error(status, message)), headers=told)
