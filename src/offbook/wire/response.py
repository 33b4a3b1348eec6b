"""The HTTP response as a value: status, headers, timed frames and its end; encoded from an exchange or an error."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from functools import cached_property
from http import HTTPStatus
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Literal, TypeAlias

import orjson
from msgspec import Struct, field
from msgspec.structs import replace

from offbook.codecs.base import NO_ID, Codec
from offbook.codecs.framing import encode_sse_event, splitter_for
from offbook.codecs.openai_chat import is_usage_frame
from offbook.errors import RequestError
from offbook.faults import AnyFault
from offbook.faults.catalog import AnyOrderFault
from offbook.messages import Response, StreamDelta
from offbook.recording.format.exchange import Exchange
from offbook.recording.format.wire_record import WEBSOCKET, WireRecord, json_documents
from offbook.wire.request import ParsedRequest

if TYPE_CHECKING:
    from offbook.codecs.rules.rule import RuleRefusal

STATUSES_WITHOUT_BODY = frozenset((*range(100, 200), 204, 304))
_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n" for status in HTTPStatus}
_PLAIN_HEADER = re.compile(r"(?!connection:)[a-z0-9-]+: [\x20-\x7e]*")


def http_bytes(status: int | None, headers: Mapping[str, str], body: bytes, *, is_streamed: bool) -> bytes | None:
    """Return head and body in HTTP/1.1. A streamed body is one chunk; else the headers must hold its length.

    Returns None if the status or a header needs the server's checks.
    """
    line = None if status is None or status in STATUSES_WITHOUT_BODY else _STATUS_LINES.get(status)
    lines = [f"{name}: {value}" for name, value in headers.items()]
    if line is None or not all(_PLAIN_HEADER.fullmatch(header) for header in lines):
        return None
    head = "".join([f"{header}\r\n" for header in lines])
    if not is_streamed:
        return f"{line}{head}\r\n".encode() + body
    chunk = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
    return f"{line}{head}transfer-encoding: chunked\r\n\r\n".encode() + chunk + b"0\r\n\r\n"


ResponseEnding = Literal["complete", "cut", "reset", "silence", "closed"]
Frame: TypeAlias = tuple[float, bytes]
"""Bytes with their due time, in ms since the request."""

JSON_TYPE = "application/json"
_LENGTH_HEADERS = frozenset(("content-length", "transfer-encoding"))


class HttpResponse(Struct, frozen=True, dict=True):
    """A response to a client.

    Frames are due in order. After the last one the response ends at `end_ms`: `complete`; `cut` by a close without the
    end of the body; by a `reset` of the connection; or in `silence`, until the client leaves or `end_ms` has passed.
    One that is `closed` ends with a WebSocket close frame. A response without a `status` sends nothing before it ends.
    Frames of `live` are sent after the others, as they arrive.
    """

    status: int | None
    headers: dict[str, str] = field(default_factory=dict)
    frames: tuple[Frame, ...] = ()
    is_streamed: bool = False
    ending: ResponseEnding = "complete"
    end_ms: float = 0.0
    live: Callable[[], AsyncGenerator[bytes]] | None = None

    @property
    def content(self) -> bytes:
        """The whole body."""
        return b"".join(data for _, data in self.frames)

    @property
    def is_single_frame(self) -> bool:
        """Whether all of it, including its head, is sent when its only frame is due."""
        return self.ending == "complete" and len(self.frames) <= 1 and self.live is None

    @property
    def sent_headers(self) -> dict[str, str]:
        """The headers, with a content length if it is known from the start, and without other framing headers."""
        headers = self.headers
        if not _LENGTH_HEADERS.isdisjoint(headers):
            headers = {name: value for name, value in headers.items() if name not in _LENGTH_HEADERS}
        if self.is_streamed or self.ending != "complete":
            return headers
        length = sum([len(data) for _, data in self.frames])
        return headers | {"content-length": str(length)}

    @cached_property
    def immediate_bytes(self) -> bytes | None:
        """Head and body in HTTP/1.1, if the response is immediate and complete; else None."""
        due_ms, body = self.frames[0] if self.frames else (0.0, b"")
        if not self.is_single_frame or due_ms > 0:
            return None
        return http_bytes(self.status, self.sent_headers, body, is_streamed=self.is_streamed)

    def delayed(self, delay_ms: float) -> HttpResponse:
        """Return the response with all of it due in `delay_ms`."""
        frames = tuple((delay_ms, data) for _, data in self.frames)
        return replace(self, frames=frames, end_ms=delay_ms)

    def merged(self) -> HttpResponse:
        """Return the response with simultaneous frames joined."""
        frames = tuple(
            (at_ms, b"".join(data for _, data in group)) for at_ms, group in groupby(self.frames, key=itemgetter(0))
        )
        return replace(self, frames=frames)


NO_ANSWER = HttpResponse(None, ending="silence", end_ms=float("inf"))
"""The answer to a program that was killed."""


def whole_response(
    status: int, body: bytes, *, headers: Mapping[str, str] | None = None, content_type: str = JSON_TYPE
) -> HttpResponse:
    """Return a response in one piece. A content type among the `headers` overrides `content_type`."""
    lowered = {name.lower(): value for name, value in (headers or {}).items()}
    return HttpResponse(status, {"content-type": content_type} | lowered, ((0.0, body),))


def split_events(answer: HttpResponse) -> tuple[Frame, ...]:
    """Split the body into one event a frame, due when the last of its bytes is.

    A body without events and JSON lines keeps its frames.
    """
    splitter = splitter_for(answer.headers.get("content-type", ""))
    events = [(at_ms, event) for at_ms, data in answer.frames for event in splitter.feed(data)]
    end_ms = answer.frames[-1][0] if answer.frames else 0.0
    return (*events, *((end_ms, event) for event in splitter.close()))


def stream_events(answer: HttpResponse, *, is_array: bool) -> tuple[Frame, ...]:
    """Return the events of a streamed response. Items of a JSON array become events due at its end."""
    content = answer.content if is_array else b""
    if not content.lstrip().startswith(b"["):
        return split_events(answer)
    return tuple((answer.end_ms, encode_sse_event(orjson.dumps(each))) for each in json_documents(content))


ID_CHARS = 24
NO_RETRY = {"x-should-retry": "false"}
"""The header that keeps SDKs from retrying."""
_REQUEST_ID_HEADERS = {
    "openai_chat": "x-request-id",
    "openai_responses": "x-request-id",
    "openai_completions": "x-request-id",
    "anthropic": "request-id",
    "bedrock": "x-amzn-requestid",
    "bedrock_anthropic": "x-amzn-requestid",
}

_WITH_USAGE_OPTION = ("openai_chat", "openai_completions")


def has_wire_bytes(exchange: Exchange, parsed: ParsedRequest) -> bool:
    """Return whether the exchange holds bytes that answer the request: of its protocol, and streamed if it streams."""
    wire = exchange.wire
    if wire is None or wire.protocol != parsed.route.protocol:
        return False
    if wire.status != 200 or parsed.request is None:
        return True
    is_array = wire.is_streamed and wire.headers.get("content-type", "").startswith(JSON_TYPE)
    return wire.is_streamed == parsed.is_streamed and is_array == parsed.is_array


def recorded_response(wire: WireRecord) -> HttpResponse:
    """Return the recorded bytes as a response; the messages of a WebSocket as frames."""
    if wire.protocol == WEBSOCKET and wire.status == 101:
        from offbook.wire.websocket.turn import recorded_frames  # noqa: PLC0415 - only sessions need it

        return recorded_frames(wire)
    frames = tuple(wire.timed_frames())
    end_ms = frames[-1][0] if frames else 0.0
    return HttpResponse(wire.status, dict(wire.headers), frames, wire.is_streamed, end_ms=end_ms)


def encode_exchange(exchange: Exchange, parsed: ParsedRequest) -> HttpResponse:
    """Encode the exchange's canonical fields in the protocol of the request.

    Raises:
        RequestError: the request is not a model call.
    """
    request, codec = parsed.request, parsed.route.codec
    if request is None or codec is None:
        raise RequestError(parsed.problem or "the entry has no bytes for a plain HTTP request", source=parsed.place)
    response = exchange.response(model=request.model, provider="")
    if not request.stream:
        return _encode_whole_response(response, parsed, codec)
    return encode_streamed_response(response, exchange.timed_deltas(), parsed, codec, end_ms=exchange.latency_ms)


def encode_model_response(
    response: Response, deltas: Iterable[StreamDelta], parsed: ParsedRequest, codec: Codec
) -> HttpResponse:
    """Encode a response in the request's protocol, streamed if requested."""
    if not parsed.is_streamed:
        return _encode_whole_response(response, parsed, codec)
    return encode_streamed_response(response, [(0.0, delta) for delta in deltas], parsed, codec)


def _encode_whole_response(response: Response, parsed: ParsedRequest, codec: Codec) -> HttpResponse:
    body = orjson.dumps(codec.encode_response(response, id=_response_id(parsed)))
    return whole_response(200, body, headers=_request_id_header(codec, _response_id(parsed)))


def _response_id(parsed: ParsedRequest) -> str:
    """Return a unique response id for the run, because clients treat two messages of one id as equal."""
    return parsed.request_hash[:ID_CHARS]


def _request_id_header(codec: Codec, id: str) -> dict[str, str]:
    """Return the vendor's request id header, if its SDK reads one."""
    name = _REQUEST_ID_HEADERS.get(codec.name)
    return {} if name is None else {name: f"req_{id}"}


def encode_streamed_response(
    response: Response,
    deltas: Iterable[tuple[float, StreamDelta]],
    parsed: ParsedRequest,
    codec: Codec,
    *,
    end_ms: float = 0.0,
) -> HttpResponse:
    """Encode a response as frames. A frame is due with its delta, those after the last delta at `end_ms`."""
    frames = list(_timed_frames(codec, response, list(deltas), end_ms=end_ms, id=_response_id(parsed)))
    if codec.name in _WITH_USAGE_OPTION and not parsed.wants_usage:
        frames = [frame for frame in frames if not is_usage_frame(frame[1])]
    if parsed.is_array:
        headers, frames = {"content-type": JSON_TYPE}, list(_array_frames(frames))
    else:
        headers = {"content-type": codec.stream_type} | _request_id_header(codec, _response_id(parsed))
    return HttpResponse(200, headers, tuple(frames), is_streamed=True, end_ms=end_ms)


def _timed_frames(
    codec: Codec, response: Response, timed_deltas: list[tuple[float, StreamDelta]], *, end_ms: float, id: str
) -> Iterator[Frame]:
    at_ms = 0.0

    def deltas() -> Iterator[StreamDelta]:
        nonlocal at_ms
        for due_ms, delta in timed_deltas:
            at_ms = due_ms
            yield delta
        at_ms = max(at_ms, end_ms)

    for frame in codec.encode_stream(response, deltas(), id=id):
        yield at_ms, frame


def _array_frames(frames: list[Frame]) -> Iterator[Frame]:
    """Convert server-sent events to the pieces of one JSON array, which Gemini streams to clients without `alt=sse`."""
    for index, (at_ms, frame) in enumerate(frames):
        yield at_ms, array_piece(frame, is_first=index == 0, is_last=index == len(frames) - 1)


def array_piece(event: bytes, *, is_first: bool, is_last: bool) -> bytes:
    """Convert a server-sent event to a piece of a JSON array."""
    data = event.removeprefix(b"data: ").rstrip()
    return (b"[" if is_first else b",\r\n") + data + (b"]" if is_last else b"")


def error_response(
    codec: Codec, status: int, message: str, *, headers: Mapping[str, str] | None = None
) -> HttpResponse:
    """Encode an error in the vendor's format. AWS also names its kind in a header."""
    body = codec.encode_error(status, message)
    kind = {"x-amzn-errortype": body["__type"]} if "__type" in body else {}
    all_headers = _request_id_header(codec, NO_ID) | kind | dict(headers or {})
    return whole_response(status, orjson.dumps(body), headers=all_headers)


def refusal_response(codec: Codec, status: int, message: str) -> HttpResponse:
    """Encode an error in the vendor's format that SDKs do not retry."""
    return error_response(codec, status, message, headers=NO_RETRY)


def vendor_refusal(codec: Codec, refusal: RuleRefusal) -> HttpResponse:
    """Encode the refusal of a request that breaks a rule of the vendor, in its shape and words."""
    answer = refusal_response(codec, refusal.status, refusal.breach.message)
    body = refusal.error_body(codec.encode_error)
    return replace(answer, frames=((0.0, orjson.dumps(body)),))


_RETRYABLE_STATUSES = frozenset((408, 409, 429))


def is_retryable(answer: HttpResponse) -> bool:
    """Return whether a client retries after this answer: none, a broken one, or a server error."""
    if answer.status is None or answer.ending != "complete":
        return True
    return answer.status in _RETRYABLE_STATUSES or answer.status >= 500


def spoils_answer(fault: AnyFault | AnyOrderFault | None, answer: HttpResponse) -> bool:
    """Return whether a client retries after `answer`, which `fault` has changed unless it is None."""
    return is_retryable(answer) or (fault is not None and fault.breaks_response)
