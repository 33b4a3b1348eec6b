"""Sends an HttpResponse over ASGI on time, and ends it as it says: complete, cut, reset or silent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from math import isfinite
from typing import Any, TypeAlias

from msgspec.structs import replace

from offbook.wire.response import HttpResponse
from offbook.wire.server.connection import TRANSPORT, reset_connection

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
_WITHOUT_BODY = frozenset((*range(100, 200), 204, 304))


async def send_response(answer: HttpResponse, scope: Scope, receive: Receive, send: Send) -> bool:
    """Send `answer`. Returns when it has ended, or when the client has left; whether it was sent to its end."""
    if answer.status in _WITHOUT_BODY:
        answer = replace(answer, frames=())
    if answer.is_at_once:
        at_ms, data = answer.frames[0] if answer.frames else (0.0, b"")
        if at_ms > 0 and await _leaves_within(receive, at_ms / 1000.0):
            return False
        await send(_head(answer, scope))
        await send({"type": "http.response.body", "body": data})
        return True
    leaving = asyncio.ensure_future(until_client_leaves(receive))
    try:
        return await _ResponseSender(scope, leaving, send).perform(answer)
    finally:
        leaving.cancel()


class _ResponseSender:
    """Sends one answer in pieces, with an eye on the client: `leaving` is done when it has left."""

    def __init__(self, scope: Scope, leaving: asyncio.Future[None], send: Send) -> None:
        self._transport: asyncio.Transport = scope[TRANSPORT]
        self._scope, self._leaving, self._send = scope, leaving, send
        self._started_s = asyncio.get_running_loop().time()

    async def perform(self, answer: HttpResponse) -> bool:
        if answer.status is not None:
            await self._send(_head(answer, self._scope))
        for at_ms, data in answer.frames:
            if await self._left_before(at_ms):
                return False
            await self._send({"type": "http.response.body", "body": data, "more_body": True})
        if await self._left_before(answer.end_ms):
            return False
        await self._end(answer)
        return answer.ending == "complete"

    async def _end(self, answer: HttpResponse) -> None:
        match answer.ending:
            case "complete":
                await self._send({"type": "http.response.body", "body": b""})
            case "cut":
                self._transport.close()
                await self._leaving
            case "reset" | "silence":
                await reset_connection(self._transport)
                await self._leaving

    async def _left_before(self, due_ms: float) -> bool:
        """Wait until something is due; whether the client has left before."""
        wait_ms = due_ms - (asyncio.get_running_loop().time() - self._started_s) * 1000.0
        if wait_ms > 0:
            await asyncio.wait([self._leaving], timeout=wait_ms / 1000.0 if isfinite(wait_ms) else None)
        return self._leaving.done() or self._transport.is_closing()


def _head(answer: HttpResponse, scope: Scope) -> MutableMapping[str, Any]:
    headers = answer.sent_headers
    if scope["http_version"] == "1.0":  # such clients know no chunks; a length that is not reached tells them of a cut
        headers = headers | {"content-length": str(len(answer.content) + (answer.ending != "complete"))}
    told = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    return {"type": "http.response.start", "status": answer.status, "headers": told}


async def until_client_leaves(receive: Receive) -> None:
    """Wait until the client has left, or the connection is closed."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _leaves_within(receive: Receive, wait_s: float) -> bool:
    """Whether the client leaves within a time."""
    try:
        await asyncio.wait_for(until_client_leaves(receive), wait_s)
    except TimeoutError:
        return False
    return True
