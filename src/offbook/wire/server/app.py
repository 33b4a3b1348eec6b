"""The ASGI application: checks the API key, has the session accept the call, and sends or forwards the response."""

from __future__ import annotations

import hmac
import logging
from typing import Protocol
from urllib.parse import parse_qs

from offbook.codecs.base import Codec
from offbook.wire.backend import ACCEPTED_CALL, AcceptedCall, SessionRegistry, accept, split_session_path
from offbook.wire.calls import CallAttempt
from offbook.wire.encode import error_response
from offbook.wire.request import HttpRequest, route_of
from offbook.wire.response import HttpResponse
from offbook.wire.server.connection import REQUEST_LIMITS, RequestLimits
from offbook.wire.server.control import CONTROL_PREFIX, control_app
from offbook.wire.server.send import Receive, Scope, Send, send_response
from offbook.wire.session import WireSession

_KEY_HEADERS = ("x-api-key", "x-goog-api-key", "api-key")


class Access:
    """Lets calls in that carry `api_key` where their vendor's clients put a key; without a key, all."""

    def __init__(self, api_key: str = "") -> None:
        self._api_key = api_key.encode()

    def allows(self, call: HttpRequest) -> bool:
        return not self._api_key or any(hmac.compare_digest(key.encode(), self._api_key) for key in _keys_in(call))


def _keys_in(call: HttpRequest) -> list[str]:
    bearer = call.headers.get("authorization", "").partition(" ")[2]
    carried = [bearer, *(call.headers.get(name, "") for name in _KEY_HEADERS)]
    return carried + parse_qs(call.query).get("key", []) if call.query else carried


logger = logging.getLogger("offbook.wire")


class BodyTooLargeError(Exception):
    """A body that is larger than a server takes."""


class Forwarder(Protocol):
    """What is asked where a session has no answer of its own."""

    async def forward(
        self, session: WireSession, taken: CallAttempt, call: HttpRequest, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Ask the real API, and pass on what it answers."""
        ...


class WireApp:
    """Answers calls from their sessions. What a session leaves open is asked `upstream`."""

    def __init__(
        self,
        sessions: SessionRegistry,
        *,
        access: Access,
        upstream: Forwarder | None = None,
        limits: RequestLimits = REQUEST_LIMITS,
    ) -> None:
        self._sessions, self._access, self._upstream, self._limits = sessions, access, upstream, limits
        self._control = control_app(sessions)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun: AcceptedCall | None = scope.get(ACCEPTED_CALL)
        if begun is not None:
            await self._finish(begun, scope, receive, send)
            return
        try:
            call = HttpRequest(
                scope["method"],
                scope["path"],
                scope["query_string"].decode("latin-1"),
                {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]},
                await self._body(receive),
            )
        except BodyTooLargeError:
            told = f"the body is larger than {self._limits.body_bytes} bytes"
            await send_response(_error(scope, 413, told), scope, receive, send)
            return
        except ConnectionError:
            return
        if not self._access.allows(call):
            await send_response(_error(scope, 401, "the key is not the one of this server"), scope, receive, send)
        elif call.path.startswith(CONTROL_PREFIX):
            await self._control(scope, _receive_again(call.body, receive), send)
        else:
            await self._finish(accept(self._sessions, call), scope, receive, send)

    def begin(self, call: HttpRequest) -> AcceptedCall | None:
        """Have the call taken on by its session; None if that is not for a session to do."""
        is_for_session = self._access.allows(call) and not call.path.startswith(CONTROL_PREFIX)
        return accept(self._sessions, call) if is_for_session and len(call.body) <= self._limits.body_bytes else None

    async def _finish(self, begun: AcceptedCall, scope: Scope, receive: Receive, send: Send) -> None:
        if begun.answer is not None:
            has_arrived = await send_response(begun.answer, scope, receive, send)
            if has_arrived and begun.taken is not None:
                begun.session.arrived(begun.taken)
        elif self._upstream is not None and begun.taken is not None:
            call = begun.call
            try:
                await self._upstream.forward(begun.session, begun.taken, call, scope, receive, send)
            except Exception:
                logger.exception("%s %s could not be passed on", call.method, call.path)
                raise

    async def _body(self, receive: Receive) -> bytes:
        message = await receive()
        if message["type"] == "http.request" and not message["more_body"]:
            return self._limited(message["body"])
        pieces, size = [], 0
        while True:
            if message["type"] == "http.disconnect":
                raise ConnectionError("the client left")
            pieces.append(message["body"])
            size += len(message["body"])
            if size > self._limits.body_bytes:
                raise BodyTooLargeError
            if not message["more_body"]:
                return b"".join(pieces)
            message = await receive()

    def _limited(self, body: bytes) -> bytes:
        if len(body) > self._limits.body_bytes:
            raise BodyTooLargeError
        return body


def _receive_again(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives a body which was read already."""
    bodies = [body]

    async def again() -> dict[str, object]:
        if bodies:
            return {"type": "http.request", "body": bodies.pop(), "more_body": False}
        return dict(await receive())

    return again


def _error(scope: Scope, status: int, message: str) -> HttpResponse:
    headers = {name.decode("latin-1"): "" for name, _ in scope["headers"]}
    codec = route_of(scope["method"], split_session_path(scope["path"])[1], headers).vendor_codec
    return _refusal(codec, status, message)


def _refusal(codec: Codec, status: int, message: str) -> HttpResponse:
    return error_response(codec, status, message, headers={"x-should-retry": "false"})
