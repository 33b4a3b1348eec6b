"""One exchange of a WebSocket session as a call: its parsed request, and its answer in encoded frames."""

from __future__ import annotations

from hashlib import sha256
from urllib.parse import parse_qs

from msgspec.structs import replace

from offbook.messages import JsonObject
from offbook.recording.format.wire_record import WEBSOCKET, WEBSOCKET_METHOD, WireRecord, wire_bytes
from offbook.recording.match.fingerprint import NO_RULES, NormaliseRules, canonical_bytes
from offbook.recording.match.websocket import SocketTurn, turn_fields, turn_fingerprint
from offbook.wire.request import ApiRoute, HttpRequest, ParsedRequest, query_without_secrets, route_of
from offbook.wire.response import HttpResponse
from offbook.wire.websocket.framing import (
    ABNORMAL_CLOSURE,
    BINARY,
    INTERNAL_ERROR,
    POLICY_VIOLATION,
    TEXT,
    TRY_AGAIN_LATER,
    CloseMessage,
    FrameParser,
    FramingError,
    encode_close,
    encode_frame,
)

SWITCHING_PROTOCOLS = 101
MISS_CODE = 4422
"""The close code of a message that the recording has no answer for: 422, as over HTTP, in the range of applications."""


class TurnRequest(ParsedRequest, frozen=True):
    """One exchange of a WebSocket session, parsed. `session_model` is the model that the handshake names."""

    session_model: str = ""

    @property
    def model(self) -> str:
        return self.session_model


def parse_handshake(request: HttpRequest, rules: NormaliseRules = NO_RULES) -> TurnRequest:
    """Return the handshake of a session as a call."""
    place = request.path + query_without_secrets(request.query)
    vendor = (
        "google" if request.path.startswith("/ws/google.") else route_of("GET", request.path, request.headers).vendor
    )
    fields = turn_fields(path=place, after="", sent=())
    return TurnRequest(
        route=ApiRoute(vendor, "generate", WEBSOCKET),
        place=place,
        request=None,
        request_hash=turn_fingerprint(fields, {}, rules),
        fields=canonical_bytes(fields),
        method=WEBSOCKET_METHOD,
        session_model=parse_qs(request.query).get("model", [""])[0],
    )


def with_turn(handshake: TurnRequest, turn: SocketTurn) -> TurnRequest:
    """Return a recorded exchange of a session as a call."""
    return replace(handshake, request_hash=turn.fingerprint, fields=bytes(turn.exchange.request), is_message=True)


def with_sent(handshake: TurnRequest, fields: JsonObject, fingerprint: str) -> TurnRequest:
    """Return a client's messages as a call."""
    return replace(handshake, request_hash=fingerprint, fields=canonical_bytes(fields), is_message=True)


def unknown_fingerprint(fields: JsonObject) -> str:
    """Return a fingerprint for unrecorded messages."""
    return sha256(canonical_bytes(fields)).hexdigest()


def recorded_frames(wire: WireRecord) -> HttpResponse:
    """Return a server's recorded messages as frames, with the recorded close."""
    frames = [
        (at_ms, encode_frame(TEXT if isinstance(text, str) else BINARY, wire_bytes(text)))
        for at_ms, text in wire.frames or ()
    ]
    end_ms = frames[-1][0] if frames else 0.0
    answer = HttpResponse(wire.status, dict(wire.headers), tuple(frames), is_streamed=True, end_ms=end_ms)
    if wire.close is None:
        return answer
    code, reason = wire.close
    return replace(answer, ending="cut") if code == ABNORMAL_CLOSURE else closed(answer, CloseMessage(code, reason))


def closed(answer: HttpResponse, close: CloseMessage) -> HttpResponse:
    """Return the answer with a close frame at its end."""
    return replace(answer, frames=(*answer.frames, (answer.end_ms, encode_close(close))), ending="closed")


def in_frames(answer: HttpResponse, *, reason: str = "") -> HttpResponse:
    """Return an answer within a session, where HTTP no longer applies.

    An error becomes a close frame, with the `reason` if given, and a body a text message.
    """
    if answer.status is None or answer.status == SWITCHING_PROTOCOLS:
        return answer
    bare = HttpResponse(SWITCHING_PROTOCOLS, is_streamed=True, end_ms=answer.end_ms)
    if answer.status < 400:
        return replace(bare, frames=((answer.end_ms, encode_frame(TEXT, answer.content)),))
    text = reason or answer.content.decode("utf-8", "replace")
    return closed(bare, CloseMessage(close_code(answer.status), text))


def close_code(status: int) -> int:
    """Return the close code that corresponds to an HTTP error status."""
    if status == 422:
        return MISS_CODE
    if status in (429, 503):
        return TRY_AGAIN_LATER
    return POLICY_VIOLATION if status < 500 else INTERNAL_ERROR


def renamed_frames(answer: HttpResponse, ids: dict[bytes, bytes]) -> HttpResponse:
    """Return the answer with the ids that the client has chosen, instead of those that were recorded."""
    if not ids:
        return answer
    return replace(answer, frames=tuple((at_ms, _renamed(data, ids)) for at_ms, data in answer.frames))


def _renamed(data: bytes, ids: dict[bytes, bytes]) -> bytes:
    parser, pieces = FrameParser(expects_mask=False, max_message_bytes=len(data)), list[bytes]()
    try:
        for message in parser.feed(data):
            payload = message.data
            for old, new in ids.items():
                payload = payload.replace(old, new)
            pieces.append(encode_frame(message.opcode, payload))
    except FramingError:  # a fault has broken it
        return data
    return b"".join([*pieces, parser.unparsed])
