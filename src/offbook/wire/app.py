"""The ASGI application: a call comes in, its session answers, the answer goes out."""

from __future__ import annotations

import logging
from typing import Protocol

from offbook.codecs.codec import Codec
from offbook.wire.access import Access
from offbook.wire.answer import Answer
from offbook.wire.begun import BEGUN, Begun, begin
from offbook.wire.control import control_app
from offbook.wire.encoding import error_answer
from offbook.wire.http_call import HttpCall
from offbook.wire.limits import LIMITS, Limits
from offbook.wire.route import route_of
from offbook.wire.sending import Receive, Scope, Send, send_answer
from offbook.wire.session import WireSession
from offbook.wire.sessions import Sessions, split_path
from offbook.wire.taken import Taken

CONTROL = "/_offbook"
logger = logging.getLogger("offbook.wire")


class TooLargeError(Exception):
    """A body that is larger than a server takes."""


class Upstream(Protocol):
    """What is asked where a session has no answer of its own."""

    async def forward(
        self, session: WireSession, taken: Taken, call: HttpCall, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Ask the real API, and pass on what it answers."""
        ...


class WireApp:
    """Answers calls from their sessions. What a session leaves open is asked `upstream`."""

    def __init__(
        self, sessions: Sessions, *, access: Access, upstream: Upstream | None = None, limits: Limits = LIMITS
    ) -> None:
        self._sessions, self._access, self._upstream, self._limits = sessions, access, upstream, limits
        self._control = control_app(sessions)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun: Begun | None = scope.get(BEGUN)
        if begun is not None:
            await self._finish(begun, scope, receive, send)
            return
        try:
            call = HttpCall(
                scope["method"],
                scope["path"],
                scope["query_string"].decode("latin-1"),
                {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]},
                await self._body(receive),
            )
        except TooLargeError:
            told = f"the body is larger than {self._limits.body_bytes} bytes"
            await send_answer(_error(scope, 413, told), scope, receive, send)
            return
        except ConnectionError:
            return
        if not self._access.allows(call):
            await send_answer(_error(scope, 401, "the key is not the one of this server"), scope, receive, send)
        elif call.path.startswith(CONTROL):
            await self._control(scope, _replayed(call.body, receive), send)
        else:
            await self._finish(begin(self._sessions, call), scope, receive, send)

    def begin(self, call: HttpCall) -> Begun | None:
        """Have the call taken on by its session; None if that is not for a session to do."""
        is_for_session = self._access.allows(call) and not call.path.startswith(CONTROL)
        return begin(self._sessions, call) if is_for_session and len(call.body) <= self._limits.body_bytes else None

    async def _finish(self, begun: Begun, scope: Scope, receive: Receive, send: Send) -> None:
        if begun.answer is not None:
            has_arrived = await send_answer(begun.answer, scope, receive, send)
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
                raise TooLargeError
            if not message["more_body"]:
                return b"".join(pieces)
            message = await receive()

    def _limited(self, body: bytes) -> bytes:
        if len(body) > self._limits.body_bytes:
            raise TooLargeError
        return body


def _replayed(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives a body which was read already."""
    bodies = [body]

    async def again() -> dict[str, object]:
        if bodies:
            return {"type": "http.request", "body": bodies.pop(), "more_body": False}
        return dict(await receive())

    return again


def _error(scope: Scope, status: int, message: str) -> Answer:
    headers = {name.decode("latin-1"): "" for name, _ in scope["headers"]}
    codec = route_of(scope["method"], split_path(scope["path"])[1], headers).vendor_codec
    return _refusal(codec, status, message)


def _refusal(codec: Codec, status: int, message: str) -> Answer:
    return error_answer(codec, status, message, headers={"x-should-retry": "false"})
