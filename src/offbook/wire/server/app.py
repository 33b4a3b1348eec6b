"""The ASGI application: checks the API key, has the session accept the call, and sends or forwards the response."""

from __future__ import annotations

import hmac
import logging
from typing import Protocol
from urllib.parse import parse_qs

from offbook.vendors import KEY_HEADERS
from offbook.wire.backend import ACCEPTED_CALL, AcceptedCall, SessionRegistry, accept, split_session_path
from offbook.wire.request import HttpRequest, header_dict, route_of
from offbook.wire.response import HttpResponse, refusal_response
from offbook.wire.server.connection import REQUEST_LIMITS, RequestLimits, has_left, send_response
from offbook.wire.server.control import CONTROL_PREFIX, control_response
from offbook.wire.server.http_protocol import TRANSPORT, Receive, Scope, Send

logger = logging.getLogger("offbook.wire")
_PLAIN_KEY_HEADERS = sorted(KEY_HEADERS - {"authorization"})


class Access:
    """Allows requests that carry `api_key` where the vendors' clients put a key; without an `api_key`, all."""

    def __init__(self, api_key: str = "") -> None:
        self._api_key = api_key.encode()

    def allows(self, request: HttpRequest) -> bool:
        return not self._api_key or any(hmac.compare_digest(key.encode(), self._api_key) for key in _keys_in(request))


def _keys_in(request: HttpRequest) -> list[str]:
    bearer = request.headers.get("authorization", "").partition(" ")[2]
    keys = [bearer, *(request.headers.get(name, "") for name in _PLAIN_KEY_HEADERS)]
    return keys + parse_qs(request.query).get("key", []) if request.query else keys


def _is_control_path(path: str) -> bool:
    """Return whether a path is below `/_offbook`, of the server or of a session."""
    return CONTROL_PREFIX in path and split_session_path(path)[1].startswith(CONTROL_PREFIX)


class BodyTooLargeError(Exception):
    """A request body above the limit."""


class Forwarder(Protocol):
    """Forwards calls that a session cannot answer."""

    async def forward(self, accepted: AcceptedCall, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the request to the real API, and forward its response."""
        ...


class WireApp:
    """Answers requests from their sessions. Calls that a session cannot answer go to `upstream`."""

    def __init__(
        self,
        sessions: SessionRegistry,
        *,
        access: Access,
        upstream: Forwarder | None = None,
        limits: RequestLimits = REQUEST_LIMITS,
    ) -> None:
        self._sessions, self._access, self._upstream, self._limits = sessions, access, upstream, limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        accepted: AcceptedCall | None = scope.get(ACCEPTED_CALL)
        if accepted is not None:
            await self._finish(accepted, scope, receive, send)
            return
        try:
            request = HttpRequest(
                method=scope["method"],
                path=scope["path"],
                query=scope["query_string"].decode("latin-1"),
                headers=header_dict(scope["headers"]),
                body=await self._body(receive),
            )
        except BodyTooLargeError:
            message = f"the body is larger than {self._limits.body_bytes} bytes"
            await send_response(_refusal(scope, 413, message), scope, receive, send)
            return
        except ConnectionError:
            return
        if not self._access.allows(request):
            await send_response(_refusal(scope, 401, "the API key is not that of this server"), scope, receive, send)
        elif _is_control_path(request.path):
            await send_response(control_response(request, self._sessions), scope, receive, send)
        else:
            await self._finish(accept(self._sessions, request), scope, receive, send)

    def accept(self, request: HttpRequest) -> AcceptedCall | None:
        """Have the session of a request answer it; None if the request is not for a session."""
        is_for_session = self._access.allows(request) and not _is_control_path(request.path)
        is_accepted = is_for_session and len(request.body) <= self._limits.body_bytes
        return accept(self._sessions, request) if is_accepted else None

    async def _finish(self, accepted: AcceptedCall, scope: Scope, receive: Receive, send: Send) -> None:
        if accepted.answer is not None:
            is_gone = accepted.session.is_explored and has_left(scope[TRANSPORT])
            is_sent = await send_response(accepted.answer, scope, receive, send)
            if is_sent and not is_gone:
                accepted.delivered()
            else:
                accepted.left()
        elif self._upstream is not None:
            try:
                await self._upstream.forward(accepted, scope, receive, send)
            except Exception:
                logger.exception("%s %s could not be forwarded", accepted.request.method, accepted.request.path)
                raise

    async def _body(self, receive: Receive) -> bytes:
        pieces, size, has_more = [], 0, True
        while has_more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ConnectionError("the client left")
            pieces.append(message["body"])
            size += len(message["body"])
            if size > self._limits.body_bytes:
                raise BodyTooLargeError
            has_more = message["more_body"]
        return b"".join(pieces)


def _refusal(scope: Scope, status: int, message: str) -> HttpResponse:
    path = split_session_path(scope["path"])[1]
    codec = route_of(scope["method"], path, header_dict(scope["headers"])).any_codec
    return refusal_response(codec, status, message)
