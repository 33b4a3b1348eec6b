"""Opens WebSocket sessions: refuses a handshake, answers it from the recording, or leaves it to the real API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from offbook.wire.backend import AcceptedCall, SessionRegistry, accept_in
from offbook.wire.request import HttpRequest, is_key_subprotocol, subprotocol_key
from offbook.wire.response import HttpResponse, http_bytes, refusal_response, whole_response
from offbook.wire.server.session_clock import ANY_ACTIVITY, Activity
from offbook.wire.session import WireSession
from offbook.wire.websocket.connection import WebSocketConnection, after_head
from offbook.wire.websocket.framing import accept_key, is_key
from offbook.wire.websocket.replayed import ReplayedSession
from offbook.wire.websocket.turn import SWITCHING_PROTOCOLS, TurnRequest, parse_handshake

if TYPE_CHECKING:
    from offbook.wire.server.access import Access
    from offbook.wire.server.wire_server import Forwarder


VERSION = "13"


def handshake_problem(request: HttpRequest) -> HttpResponse | None:
    """Return the refusal of an invalid WebSocket request, or None."""
    headers = request.headers
    if headers.get("sec-websocket-version", "").strip() != VERSION:
        text = b"this server speaks version 13 of the WebSocket protocol"
        return whole_response(426, text, headers={"sec-websocket-version": VERSION}, content_type="text/plain")
    if not is_key(headers.get("sec-websocket-key", "").strip()):
        text = b"a WebSocket handshake needs a Sec-WebSocket-Key of 16 bytes"
        return whole_response(400, text, content_type="text/plain")
    return None


def with_key_header(headers: Mapping[str, str]) -> dict[str, str]:
    """Return headers with a key moved from a client's subprotocol to its usual header."""
    key = subprotocol_key(headers.get("sec-websocket-protocol", ""))
    return {"authorization": f"Bearer {key}"} | dict(headers) if key else dict(headers)


def offered_subprotocols(headers: Mapping[str, str]) -> list[str]:
    """Return a client's offered subprotocols without those that are a key."""
    names = (name.strip() for name in headers.get("sec-websocket-protocol", "").split(","))
    return [name for name in names if name and not is_key_subprotocol(name)]


def opening_head(request: HttpRequest, answered: Mapping[str, str]) -> bytes:
    """Return the head that opens the connection. `answered` are the headers of the recorded or real response.

    The client gets the recorded subprotocol, else the first one that it offers, because many clients leave without one.
    """
    offered = offered_subprotocols(request.headers)
    chosen = answered.get("sec-websocket-protocol", "")
    lines = [
        "HTTP/1.1 101 Switching Protocols",
        "upgrade: websocket",
        "connection: Upgrade",
        f"sec-websocket-accept: {accept_key(request.headers['sec-websocket-key'].strip())}",
    ]
    if offered:
        lines.append(f"sec-websocket-protocol: {chosen if chosen in offered else offered[0]}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def refusing_bytes(answer: HttpResponse) -> HttpResponse:
    """Return an HTTP answer that refuses a handshake, as bytes after which the connection is closed."""
    if answer.status is None:
        return answer
    at_ms = answer.frames[-1][0] if answer.frames else answer.end_ms
    whole = replace(answer, frames=((0.0, answer.content),), ending="complete", is_streamed=False)
    data = http_bytes(answer.status, whole.sent_headers, answer.content, is_streamed=False)
    if data is None:  # a status or header that needs the checks of an HTTP response
        data = http_bytes(500, {"content-length": "0"}, b"", is_streamed=False) or b""
    head, gap, body = data.partition(b"\r\n\r\n")
    ending = "cut" if answer.ending == "complete" else answer.ending
    return replace(answer, frames=((at_ms, head + b"\r\nconnection: close" + gap + body),), ending=ending)


def open_session(
    request: HttpRequest,
    connection: WebSocketConnection,
    sessions: SessionRegistry,
    *,
    access: Access,
    proxy: Forwarder | None,
) -> Activity:
    """Answer a handshake and the session after it. Return the activity counter of its session."""
    request = replace(request, headers=with_key_header(request.headers))
    problem = handshake_problem(request) or _access_problem(request, access)
    if problem is not None:
        connection.write(refusing_bytes(problem).content)
        connection.transport.close()
        return ANY_ACTIVITY
    session, request = sessions.for_request(request)
    handshake = parse_handshake(request, session.rules)
    accepted = accept_in(session, request, handshake)
    if accepted.answer is not None:
        _answer(accepted, accepted.answer, connection, handshake)
    elif proxy is not None:
        proxy.forward_websocket(accepted, connection)
    return session.clock.activity


def _access_problem(request: HttpRequest, access: Access) -> HttpResponse | None:
    refusal = access.refusal(request.headers, request.query)
    return None if refusal is None else refusal_response(parse_handshake(request).route.any_codec, *refusal)


def _answer(
    accepted: AcceptedCall, answer: HttpResponse, connection: WebSocketConnection, handshake: TurnRequest
) -> None:
    """Answer a handshake from the recording and, after a 101, the session."""
    session: WireSession = accepted.session
    if answer.status != SWITCHING_PROTOCOLS:
        connection.deliver(accepted, refusing_bytes(answer))
        return
    if answer.ending == "complete" and session.source is not None:
        connection.dialogue = ReplayedSession(
            connection, session, session.source, request=accepted.request, handshake=handshake
        )
    connection.deliver(accepted, after_head(answer, opening_head(accepted.request, answer.headers)))
