"""Opens WebSocket sessions: refuses a handshake, answers it from the recording, or leaves it to the real API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from offbook.wire.backend import AcceptedCall, SessionRegistry, accept_in
from offbook.wire.request import HttpRequest
from offbook.wire.response import HttpResponse, refusal_response
from offbook.wire.server.session_clock import ANY_ACTIVITY, Activity
from offbook.wire.session import WireSession
from offbook.wire.websocket.connection import WebSocketConnection, after_head
from offbook.wire.websocket.handshake import handshake_problem, opening_head, refusing_bytes, with_key_header
from offbook.wire.websocket.replayed import ReplayedSession
from offbook.wire.websocket.turn import SWITCHING_PROTOCOLS, TurnRequest, parse_handshake

if TYPE_CHECKING:
    from offbook.wire.server.access import Access
    from offbook.wire.server.wire_server import Forwarder


def open_session(
    request: HttpRequest,
    connection: WebSocketConnection,
    sessions: SessionRegistry,
    *,
    access: Access,
    proxy: Forwarder | None,
) -> Activity:
    """Answer a handshake, and have what follows it answered. Return where the activity of its session is counted."""
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
    """Answer a handshake from the recording; with a 101, what follows is, too."""
    session: WireSession = accepted.session
    if answer.status != SWITCHING_PROTOCOLS:
        connection.deliver(accepted, refusing_bytes(answer))
        return
    if answer.ending == "complete" and session.replay is not None:
        connection.dialogue = ReplayedSession(
            connection, session, session.replay, request=accepted.request, handshake=handshake
        )
    connection.deliver(accepted, after_head(answer, opening_head(accepted.request, answer.headers)))
