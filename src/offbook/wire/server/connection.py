"""The connections of the server: sends responses on time, ends them as they say, and limits requests."""

from __future__ import annotations

import asyncio
import fcntl
import re
import socket
import struct
import sys
import termios
from collections.abc import Callable, MutableMapping
from itertools import chain
from math import isfinite
from typing import Any
from urllib.parse import unquote

import httptools
from msgspec import Struct
from msgspec.structs import replace

from offbook.wire.backend import ACCEPTED_CALL, AcceptedCall
from offbook.wire.request import HttpRequest, header_dict
from offbook.wire.response import STATUSES_WITHOUT_BODY, HttpResponse
from offbook.wire.server.http_protocol import (
    TRANSPORT,
    Application,
    HttpConnection,
    OpenConnections,
    Receive,
    RequestCycle,
    Scope,
    Send,
)


class RequestLimits(Struct, frozen=True, kw_only=True):
    """The maximum sizes of a request's body, and of all its headers together, in bytes."""

    body_bytes: int = 64 * 1024 * 1024
    header_bytes: int = 64 * 1024


REQUEST_LIMITS: RequestLimits = RequestLimits()

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_FLUSH_S = 0.001
_UPGRADE = re.compile(rb"\r\nupgrade:", re.IGNORECASE)
_TOO_LARGE = b"the headers are too large"
_TOO_LARGE_RESPONSE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: text/plain; charset=utf-8\r\n"
    b"content-length: %d\r\nconnection: close\r\n\r\n%b" % (len(_TOO_LARGE), _TOO_LARGE)
)


class ClientConnection(HttpConnection):
    """One connection. Upgrade requests are ignored; headers that are too large are refused with a 431."""

    def __init__(self, application: Application, open_connections: OpenConnections) -> None:
        super().__init__(application, open_connections)
        self._header_bytes = self._unparsed_bytes = 0
        self._earlier: list[RequestCycle] = []

    def data_received(self, data: bytes) -> None:
        was_in_head = self._is_in_head
        super().data_received(data if self.is_in_body else _without_upgrade(data))
        if was_in_head and self._is_in_head:
            self._unparsed_bytes += len(data)
            if self._unparsed_bytes > REQUEST_LIMITS.header_bytes and not self.transport.is_closing():
                self._refuse()

    def connection_lost(self, exc: Exception | None) -> None:
        for cycle in self._earlier:
            cycle.disconnected = not cycle.response_complete
            cycle.message_event.set()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._header_bytes = self._unparsed_bytes = 0

    def on_headers_complete(self) -> None:
        self._header_bytes = len(self.url) + sum(map(len, chain.from_iterable(self.headers)))
        if self._header_bytes > REQUEST_LIMITS.header_bytes:
            raise ValueError("the headers are too large")  # the parser turns it into an error of its own
        self.on_head()

    def on_head(self) -> None:
        """Hand a request whose head is complete to the application."""
        earlier = self.cycle
        super().on_headers_complete()
        if earlier is not None and not earlier.response_complete:
            self._earlier = [*(cycle for cycle in self._earlier if not cycle.response_complete), earlier]

    def refuse_invalid(self) -> None:
        if self._header_bytes > REQUEST_LIMITS.header_bytes:
            self._refuse()
        else:
            super().refuse_invalid()

    @property
    def _is_in_head(self) -> bool:
        return self.scope is not None and "method" not in self.scope

    @property
    def is_in_body(self) -> bool:
        """Whether the head of a request is complete, and its body is not."""
        return self.cycle is not None and self.cycle.more_body and not self._is_in_head

    def _refuse(self) -> None:
        self.transport.write(_TOO_LARGE_RESPONSE)
        self.transport.close()


def _without_upgrade(data: bytes) -> bytes:
    """Rename an Upgrade header, which would make the parser leave the body unread.

    Java's HTTP client asks for HTTP/2 with its first request.
    """
    if b"pgrade:" not in data:
        return data
    head, end, rest = data.partition(b"\r\n\r\n")
    return _UPGRADE.sub(b"\r\nx-upgrade:", head) + end + rest


async def reset_connection(transport: asyncio.Transport) -> None:
    """Reset a connection, after all that was written has arrived: a reset discards what is in transit."""
    connection: socket.socket | None = transport.get_extra_info("socket")
    while not transport.is_closing() and (transport.get_write_buffer_size() or _unsent_bytes(connection)):  # noqa: ASYNC110
        await asyncio.sleep(_FLUSH_S)  # there is no event for it
    if connection is not None and connection.fileno() >= 0:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    transport.abort()


def _unsent_bytes(connection: socket.socket | None) -> int:
    """Return the number of bytes that the client's system has not acknowledged; 0 if that is unknown."""
    if connection is None or connection.fileno() < 0:
        return 0
    try:
        return int.from_bytes(fcntl.ioctl(connection, termios.TIOCOUTQ, b"\0\0\0\0"), sys.byteorder)
    except OSError:
        return 0


def has_left(transport: asyncio.Transport) -> bool:
    """Return whether the client has closed the connection, even if the end of it was not read yet."""
    wrapped: socket.socket | None = transport.get_extra_info("socket")
    if wrapped is None or wrapped.fileno() < 0:
        return True
    connection = socket.socket(wrapped.family, wrapped.type, wrapped.proto, fileno=wrapped.fileno())
    try:
        return not connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True
    finally:
        connection.detach()


async def send_response(answer: HttpResponse, scope: Scope, receive: Receive, send: Send) -> bool:
    """Send `answer`, until it has ended or the client has left, and return whether it was sent completely."""
    if answer.status in STATUSES_WITHOUT_BODY:
        answer = replace(answer, frames=())
    if answer.is_single_frame:
        at_ms, data = answer.frames[0] if answer.frames else (0.0, b"")
        if at_ms > 0 and await _leaves_within(receive, at_ms / 1000.0):
            return False
        await send(_head(answer, scope))
        await send({"type": "http.response.body", "body": data})
        return True
    leaving = asyncio.ensure_future(until_client_leaves(receive))
    try:
        return await _ResponseSender(scope, leaving, send).send(answer)
    finally:
        leaving.cancel()


class _ResponseSender:
    """Sends one answer in pieces. `leaving` is done when the client has left."""

    def __init__(self, scope: Scope, leaving: asyncio.Future[None], send: Send) -> None:
        self._transport: asyncio.Transport = scope[TRANSPORT]
        self._scope, self._leaving, self._send = scope, leaving, send
        self._started_s = asyncio.get_running_loop().time()

    async def send(self, answer: HttpResponse) -> bool:
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
        """Wait until a frame is due, and return whether the client has left before."""
        wait_ms = due_ms - (asyncio.get_running_loop().time() - self._started_s) * 1000.0
        if wait_ms > 0:
            await asyncio.wait([self._leaving], timeout=wait_ms / 1000.0 if isfinite(wait_ms) else None)
        return self._leaving.done() or self._transport.is_closing()


def _head(answer: HttpResponse, scope: Scope) -> MutableMapping[str, Any]:
    headers = answer.sent_headers
    if scope["http_version"] == "1.0":  # without chunks, a length that is not reached shows the cut
        headers = headers | {"content-length": str(len(answer.content) + (answer.ending != "complete"))}
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    return {"type": "http.response.start", "status": answer.status, "headers": raw}


async def until_client_leaves(receive: Receive) -> None:
    """Wait until the client has left or the connection is closed."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _leaves_within(receive: Receive, wait_s: float) -> bool:
    """Return whether the client leaves within `wait_s`."""
    try:
        await asyncio.wait_for(until_client_leaves(receive), wait_s)
    except TimeoutError:
        return False
    return True


MAX_HELD_BYTES = 1024 * 1024


class DirectConnection(ClientConnection, asyncio.BufferedProtocol):
    """Holds a request until it is complete, and has `accept` answer it. An answer that is due at once is sent directly.

    Everything else goes to the application: accepted calls with other answers, and requests that are not a plain POST,
    are large, or arrive before an earlier one is answered.

    All connections of a loop read into `buffer`, one after the other: a new buffer for each read would cost more than
    handling what was read.
    """

    def __init__(
        self,
        application: Application,
        open_connections: OpenConnections,
        *,
        accept: Callable[[HttpRequest], AcceptedCall | None],
        buffer: memoryview,
    ) -> None:
        super().__init__(application, open_connections)
        self._accept, self._buffer = accept, buffer
        self._is_held = False
        self._pieces: list[bytes] = []
        self._held_bytes = 0
        self._receiver: AcceptedCall | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None and self._receiver is not None:
            self._receiver.left()  # a client that reads its answer before it leaves resets nothing
        super().connection_lost(exc)

    @property
    def is_in_body(self) -> bool:
        return self._is_held or super().is_in_body

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.data_received(bytes(self._buffer[:nbytes]))

    def on_head(self) -> None:
        self._receiver = None
        if self.scope is not None and self._may_be_held():
            self.scope["method"] = "POST"
            self._is_held = True
            self._pieces, self._held_bytes = [], 0
        else:
            super().on_head()

    def on_body(self, body: bytes) -> None:
        if not self._is_held:
            super().on_body(body)
            return
        self._pieces.append(body)
        self._held_bytes += len(body)
        if self._held_bytes > MAX_HELD_BYTES:
            self._hand_over()

    def on_message_complete(self) -> None:
        if self._is_held:
            accepted = self._accept(self._http_request())
            data = None if accepted is None or accepted.answer is None else accepted.answer.immediate_bytes
            if data is not None and not self.flow.is_writing_paused:
                self._is_held = False
                self._note_receiver(accepted)
                self.transport.write(data)
                return
            self._hand_over(accepted)
        super().on_message_complete()

    def _note_receiver(self, accepted: AcceptedCall | None) -> None:
        """Note who gets an answer of an exploration, or that nobody does: it came after the client's own timeout."""
        if accepted is None or not accepted.session.is_explored:
            return
        self._receiver = accepted
        if has_left(self.transport):
            accepted.left()

    def _may_be_held(self) -> bool:
        is_idle = self.cycle is None or self.cycle.response_complete
        parser = self.parser
        is_plain = parser.get_method() == b"POST" and parser.get_http_version() == "1.1" and parser.should_keep_alive()
        return is_idle and is_plain and not self.expects_100

    def _http_request(self) -> HttpRequest:
        url = httptools.parse_url(self.url)
        path = url.path.decode("ascii")
        return HttpRequest(
            "POST",
            unquote(path) if "%" in path else path,
            url.query.decode("latin-1") if url.query else "",
            header_dict(self.headers),
            self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces),
        )

    def _hand_over(self, accepted: AcceptedCall | None = None) -> None:
        """Hand the request to the application after all."""
        self._is_held = False
        if self.scope is not None:
            self.scope[ACCEPTED_CALL] = accepted
        super().on_head()
        if self._pieces:
            super().on_body(b"".join(self._pieces))
