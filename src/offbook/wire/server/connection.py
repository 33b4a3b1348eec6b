"""The connections of the server: HTTP/1.1 for an ASGI application, limits of requests, and timed responses.

Requests are parsed with httptools, and the application runs for them one by one. A general web server takes longer to
import than a recording takes to load.
"""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import struct
import sys
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, MutableMapping
from contextlib import aclosing
from http import HTTPStatus
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar
from urllib.parse import unquote, urlsplit

import httptools
from msgspec import Struct
from msgspec.structs import replace

from offbook.wire.backend import ACCEPTED_CALL, AcceptedCall
from offbook.wire.request import HttpRequest, header_dict
from offbook.wire.response import STATUSES_WITHOUT_BODY, HttpResponse
from offbook.wire.server.access import TOKEN_HEADER, TOKEN_PLACES, split_token
from offbook.wire.server.arrival_order import ArrivalOrder
from offbook.wire.server.session_clock import ANY_ACTIVITY, LOOP_CLOCK, Activity, ResponseClock
from offbook.wire.session import WireSession

if TYPE_CHECKING:
    from offbook.wire.websocket.connection import WebSocketConnection

T = TypeVar("T")
Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

TRANSPORT = "offbook.transport"
"""The key of an ASGI scope for the transport of its connection."""

MAX_UNREAD_BYTES = 64 * 1024
"""The size of a body that is kept before the application receives it. Above it, reading pauses."""

MAX_DISCARDED_BYTES = 256 * 1024 * 1024
"""The size of an already answered body that is read, so that its client reads the answer. Above it, the connection is
closed.
"""


logger = logging.getLogger("offbook.wire.http")  # what clients send or leave unread is not logged
logger.addHandler(logging.NullHandler())
logger.propagate = False
_PHRASES = {status.value: status.phrase for status in HTTPStatus}
_BAD_NAME = re.compile(rb'[\x00-\x1f\x7f()<>@,;:\[\]={} \t\\"]')
_BAD_VALUE = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_FAILED = b"Internal Server Error"
_FAILED_HEADERS = [
    (b"content-type", b"text/plain; charset=utf-8"),
    (b"content-length", b"%d" % len(_FAILED)),
    (b"connection", b"close"),
]

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_FLUSH_S = 0.001
_TLS_ALERT_BYTES = 31
"""The size of the largest record with which a TLS client only closes. A request is larger."""


class RequestLimits(Struct, frozen=True, kw_only=True):
    """The maximum sizes of a request in bytes: its body, its URL, and URL and headers together; and the number of
    headers.

    `all_bodies_bytes` is the maximum of all bodies being received.
    """

    body_bytes: int = 64 * 1024 * 1024
    all_bodies_bytes: int = 512 * 1024 * 1024
    header_bytes: int = 64 * 1024
    header_count: int = 1_000
    url_bytes: int = 32 * 1024


REQUEST_LIMITS: RequestLimits = RequestLimits()

_MAX_FRAMING = 8
"""The maximum of framing bytes for each byte of a body: a one-byte chunk has five."""


class FlowControl:
    """Pauses and resumes reading from a client, and waits for a client that does not read."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._is_writable = asyncio.Event()
        self._is_writable.set()
        self._is_reading_paused = False

    @property
    def is_writing_paused(self) -> bool:
        return not self._is_writable.is_set()

    @property
    def is_reading_paused(self) -> bool:
        return self._is_reading_paused

    async def until_writable(self) -> None:
        await self._is_writable.wait()

    def pause_writing(self) -> None:
        self._is_writable.clear()

    def resume_writing(self) -> None:
        self._is_writable.set()

    def pause_reading(self) -> None:
        if not self._is_reading_paused:
            self._is_reading_paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self._is_reading_paused:
            self._is_reading_paused = False
            self._transport.resume_reading()


class RequestCycle:
    """One request of a connection and its response, as the application receives and sends them.

    `on_response` is called when the response is complete. `is_kept_alive` says whether the connection then stays open.
    """

    def __init__(
        self,
        scope: Scope,
        flow: FlowControl,
        *,
        waits_for_100: bool,
        is_kept_alive: bool,
        on_response: Callable[[], None],
    ) -> None:
        self.message_event = asyncio.Event()
        self.disconnected = self.response_complete = self.has_ended_writing = False
        self.more_body, self.body = True, bytearray()
        self._scope, self._flow, self._on_response = scope, flow, on_response
        self._transport: asyncio.Transport = scope[TRANSPORT]
        self._waits_for_100, self._is_kept_alive = waits_for_100, is_kept_alive
        self._is_started = self._is_chunked = False
        self._missing_bytes = 0

    async def run(self, application: Application) -> None:
        """Have the application answer. If it fails, the client gets a 500; after a head, the connection is closed."""
        try:
            await application(self._scope, self.receive, self.send)
        except BaseException:  # a cancelled response ends like a failed one
            logger.exception("the application failed")
            await self._fail()
        else:
            if not self.response_complete and not self.disconnected:
                logger.error("the application has sent no complete response")
                await self._fail()
        finally:
            self._on_response = _do_nothing

    async def receive(self) -> MutableMapping[str, Any]:
        if self._waits_for_100 and not self._transport.is_closing():
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self._waits_for_100 = False
        if not self.disconnected and not self.response_complete:
            self._flow.resume_reading()
            await self.message_event.wait()
            self.message_event.clear()
        if self.disconnected or self.response_complete:
            return {"type": "http.disconnect"}
        body, self.body = bytes(self.body), bytearray()
        return {"type": "http.request", "body": body, "more_body": self.more_body}

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if self._flow.is_writing_paused and not self.disconnected:
            await self._flow.until_writable()
        if self.disconnected:
            return
        if self.response_complete:
            raise RuntimeError(f"{message['type']} after the end of the response")
        if not self._is_started:
            self._write_head(message["status"], message["headers"])
        else:
            self._write_body(message["body"], has_more=message.get("more_body", False))

    async def _fail(self) -> None:
        if self._is_started:
            self._transport.close()
        else:
            await self.send({"type": "http.response.start", "status": 500, "headers": _FAILED_HEADERS})
            await self.send({"type": "http.response.body", "body": _FAILED})

    def _write_head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self._is_started, self._waits_for_100 = True, False
        names = self._note_headers(headers)
        lines = [b"HTTP/1.1 %d %b" % (status, _PHRASES.get(status, "").encode())]
        lines += [b"%b: %b" % (name, value) for name, (_, value) in zip(names, headers, strict=True)]
        if not self._is_kept_alive and not _says_close(headers):
            lines.append(b"connection: close")
        has_length = b"content-length" in names or self._is_chunked
        if not has_length and self._scope["method"] != "HEAD" and status not in (204, 304):
            self._is_chunked = True
            lines.append(b"transfer-encoding: chunked")
        self._transport.write(b"\r\n".join([*lines, b"", b""]))

    def _note_headers(self, headers: list[tuple[bytes, bytes]]) -> list[bytes]:
        """Note the headers about the length and the connection, and return the lower-case header names."""
        names = []
        for name, value in headers:
            if _BAD_NAME.search(name) or _BAD_VALUE.search(value):
                raise RuntimeError(f"{name!r}: {value!r} is not a header")
            names.append(name.lower())
            if names[-1] == b"transfer-encoding" and value.lower() == b"chunked":
                self._is_chunked, self._missing_bytes = True, 0
            elif names[-1] == b"content-length" and not self._is_chunked:
                self._missing_bytes = int(value)
        self._is_kept_alive = self._is_kept_alive and not _says_close(headers)
        return names

    def _write_body(self, body: bytes, *, has_more: bool) -> None:
        if self._scope["method"] == "HEAD":
            self._missing_bytes = 0
        elif self._is_chunked:
            chunk = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            self._transport.write(chunk if has_more else chunk + b"0\r\n\r\n")
        else:
            self._missing_bytes -= len(body)
            if self._missing_bytes < 0:
                raise RuntimeError("the body is longer than its content-length")
            self._transport.write(body)
        if not has_more:
            if self._missing_bytes:
                raise RuntimeError("the body is shorter than its content-length")
            self.response_complete = True
            self.message_event.set()
            if not self._is_kept_alive:
                self._close()
            self._on_response()

    # To close a connection with unread data resets it, and its client may lose the answer that it has not read yet. So
    # only our direction ends while a body is still arriving; the rest of it is read and dropped, within limits.
    def _close(self) -> None:
        if self.more_body and self._transport.can_write_eof() and not self._transport.is_closing():
            self.has_ended_writing = True
            self._transport.write_eof()
            self._flow.resume_reading()
        else:
            self._transport.close()


def _do_nothing() -> None:
    return None


def _says_close(headers: list[tuple[bytes, bytes]]) -> bool:
    connection = [value for name, value in headers if name.lower() == b"connection"]
    return any(token.strip().lower() == b"close" for value in connection for token in value.split(b","))


class OpenConnections:
    """The connections of a server, and the tasks that run its application."""

    def __init__(self) -> None:
        self.connections: set[HttpConnection] = set()
        self.tasks: set[asyncio.Task[None]] = set()


Phase: TypeAlias = Literal["new", "idle", "head", "body", "response"]
"""The thing that a connection waits for: its first request, the next one, the rest of a head or body, or a response."""


class HttpConnection(asyncio.Protocol):
    """One connection of a client. Pipelined requests wait for the answers to earlier ones.

    Requests that are too large or ambiguous (RFC 9112) are refused. The parser refuses two lengths, a length with
    chunks, folded headers, bare line feeds, and spaces before a colon. A request to upgrade to another protocol is
    answered as if it had no Upgrade header, unless `on_upgrade` handles it. Trailers are ignored.

    `message_count` and `received_bytes` count arrivals; `is_in_message` is whether a request has begun and is
    incomplete.
    """

    transport: asyncio.Transport
    flow: FlowControl
    url: bytes
    headers: list[tuple[bytes, bytes]]
    expects_100: bool

    def __init__(self, application: Application, open_connections: OpenConnections) -> None:
        self._application, self._open = application, open_connections
        self.parser = self._new_parser()
        self.scope: Scope | None = None
        self.cycle: RequestCycle | None = None
        self.message_count = self.received_bytes = 0
        self.is_in_message = self._is_upgrade = self._is_head_complete = False
        self._waiting: deque[RequestCycle] = deque()
        self._unanswered: list[RequestCycle] = []
        self._refusal: tuple[int, str] | None = None
        self._begun_at_bytes = self._body_bytes = self._discarded_bytes = 0
        self._content_length = self._host_count = 0
        self._transfer_encoding, self._version = b"", ""

    def _new_parser(self) -> httptools.HttpRequestParser:
        parser = httptools.HttpRequestParser(self)
        parser.set_dangerous_leniencies(lenient_data_after_close=True)  # the client may have sent more requests
        return parser

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._open.connections.add(self)
        self.transport, self.flow = transport, FlowControl(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._open.connections.discard(self)
        for cycle in (*self._unanswered, *([] if self.cycle is None else [self.cycle])):
            cycle.disconnected = not cycle.response_complete
            cycle.message_event.set()
        self.flow.resume_writing()
        del self.parser  # it refers to this connection, which would not be freed at once

    @property
    def phase(self) -> Phase:
        """The thing that the connection waits for."""
        if self.is_in_head:
            return "head"
        if self.is_in_body:
            return "body"
        if self.cycle is not None and not self.cycle.response_complete:
            return "response"
        return "idle" if self.message_count else "new"

    @property
    def waits_for_client(self) -> bool:
        """Whether the connection waits only for its client."""
        match self.phase:
            case "response":
                return self.flow.is_writing_paused
            case "body":
                return not self.flow.is_reading_paused
            case _:
                return True

    @property
    def progress(self) -> tuple[object, ...]:
        """Values that change while a client reads its response, or while reading from it is paused."""
        unsent_bytes = self.transport.get_write_buffer_size() if self.flow.is_writing_paused else 0
        return self.flow.is_reading_paused, self.flow.is_writing_paused, unsent_bytes

    @property
    def is_closing(self) -> bool:
        return self.transport.is_closing()

    def give_up(self) -> None:
        """Close a connection whose client takes too long, with a 408 if it has begun a request."""
        has_ended = self.cycle is not None and self.cycle.has_ended_writing
        if self.phase in ("head", "body") and not self.flow.is_writing_paused and not has_ended:
            self.refuse(408, "the request did not arrive in time")
        else:
            self.transport.abort()

    @property
    def is_in_head(self) -> bool:
        """Whether a request has begun and its head is incomplete."""
        return self.scope is not None and "method" not in self.scope

    @property
    def is_in_body(self) -> bool:
        """Whether the head of a request is complete, and its body is not."""
        return self.cycle is not None and self.cycle.more_body and not self.is_in_head

    def data_received(self, data: bytes) -> None:
        self.received_bytes += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError:
            self.refuse(*(self._refusal or (400, "Invalid HTTP request received.")))
        except httptools.HttpParserUpgrade as upgrade:
            self.on_upgrade(data[upgrade.args[0] :])
        if self.is_in_message:
            size = self.received_bytes - self._begun_at_bytes
            if self.is_in_head:
                if size > REQUEST_LIMITS.header_bytes:
                    self.refuse(431, "the headers are too large")
            elif size > 2 * REQUEST_LIMITS.header_bytes + _MAX_FRAMING * self._body_bytes:
                self.refuse(400, "the body is mostly chunk extensions or trailers")

    def on_upgrade(self, rest: bytes) -> None:
        """Parse a request again without its Upgrade header, which makes the parser leave the body unread.

        Java's HTTP client requests HTTP/2 with its first request.
        """
        method, version = self.parser.get_method(), self.parser.get_http_version().encode()
        lines = [b"%b: %b" % header for header in self.headers if header[0] != b"upgrade"]
        self._is_upgrade, self.parser = False, self._new_parser()
        self.message_count -= 1
        head = b"\r\n".join([b"%b %b HTTP/%b" % (method, self.url, version), *lines, b"", b""])
        self.received_bytes -= len(head) + len(rest)
        self.data_received(head + rest)

    def refuse(self, status: int, message: str) -> None:
        """Answer before or instead of the application, and close the connection."""
        if self.transport.is_closing():
            return
        body = message.encode()
        head = b"content-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\nconnection: close" % len(body)
        self.transport.write(b"HTTP/1.1 %d %b\r\n%b\r\n\r\n%b" % (status, _PHRASES[status].encode(), head, body))
        self.transport.close()

    def pause_writing(self) -> None:
        self.flow.pause_writing()

    def resume_writing(self) -> None:
        self.flow.resume_writing()

    def on_message_begin(self) -> None:
        self.message_count += 1
        self.is_in_message = True
        self.url, self.headers, self.expects_100, self._is_head_complete = b"", [], False, False
        self.scope = {"type": "http", "http_version": "1.1", "headers": self.headers, TRANSPORT: self.transport}
        self._body_bytes = self._content_length = self._host_count = 0
        self._begun_at_bytes, self._transfer_encoding = self.received_bytes, b""

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._is_head_complete:
            return  # it is a trailer
        name = name.lower()
        self.headers.append((name, value))
        match name:
            case b"expect":
                self.expects_100 = self.expects_100 or value.lower() == b"100-continue"
            case b"host":
                self._host_count += 1
            case b"content-length":
                self._content_length = int(value)
            case b"transfer-encoding":
                self._transfer_encoding = value

    def on_headers_complete(self) -> None:
        self._refusal = self._check_head()
        if self._refusal is not None or self.transport.is_closing():
            raise ValueError(self._refusal)  # the parser turns it into an error of its own
        self._is_head_complete = True
        self._take_token()
        if not self.url.startswith(b"/") and (host := urlsplit(self.url).netloc):
            # the host of `GET http://host/path` is the Host, whatever the header says
            self.headers[:] = [(b"host", host), *(header for header in self.headers if header[0] != b"host")]
        if not self.parser.should_upgrade():
            self.on_head()
        elif self.parser.get_method() == b"CONNECT":
            raise ValueError("there is nothing to connect to")
        else:
            self._is_upgrade = True

    def _take_token(self) -> None:
        """Move the server's token from the path to a header, so that no other code finds it in paths."""
        if not self.url.startswith(TOKEN_PLACES):
            return
        token, self.url = split_token(self.url)
        if token:
            self.headers.append((TOKEN_HEADER.encode(), token))

    def _check_head(self) -> tuple[int, str] | None:
        """Return the status and the message that refuse a request for its head, or None."""
        version = self._version = self.parser.get_http_version()
        size, encoding = len(self.url) + sum(map(len, chain.from_iterable(self.headers))), self._transfer_encoding
        reasons = (
            (len(self.url) > REQUEST_LIMITS.url_bytes, 414, "the URL is too long"),
            (size > REQUEST_LIMITS.header_bytes, 431, "the headers are too large"),
            (len(self.headers) > REQUEST_LIMITS.header_count, 431, "there are too many headers"),
            (version not in ("1.1", "1.0"), 505, "this server speaks HTTP/1.1"),
            (self._host_count != 1 and (version == "1.1" or self._host_count), 400, "a request names one Host"),
            (
                encoding and (version == "1.0" or encoding.lower() != b"chunked"),
                501,
                "this transfer encoding is not supported, only chunked",
            ),
        )
        return next(((status, message) for is_wrong, status, message in reasons if is_wrong), None)

    def on_head(self) -> None:
        """Pass a request with a complete head to the application."""
        assert self.scope is not None
        version, earlier = self.parser.get_http_version(), self.cycle
        self.scope.update(method=self.parser.get_method().decode("ascii"), http_version=version, **_place(self.url))
        self.cycle = RequestCycle(
            self.scope,
            self.flow,
            waits_for_100=self.expects_100,
            is_kept_alive=version != "1.0" and self.parser.should_keep_alive(),
            on_response=self._on_response,
        )
        if earlier is None or earlier.response_complete:
            self._run(self.cycle)
        else:
            self.flow.pause_reading()
            self._waiting.append(self.cycle)
            self._unanswered = [*(cycle for cycle in self._unanswered if not cycle.response_complete), earlier]

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        self._feed_body(body)

    def _feed_body(self, body: bytes) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self._discarded_bytes += len(body)
            if self._discarded_bytes > MAX_DISCARDED_BYTES:
                self.transport.abort()
            return
        self.cycle.body += body
        if len(self.cycle.body) > MAX_UNREAD_BYTES:
            self.flow.pause_reading()
        self.cycle.message_event.set()

    def on_message_complete(self) -> None:
        self.is_in_message = False
        if self.cycle is None or self._is_upgrade:
            return
        self.cycle.more_body = False
        self.cycle.message_event.set()
        if self.cycle.has_ended_writing:
            self.transport.close()

    def _on_response(self) -> None:
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self._waiting:
            self._run(self._waiting.popleft())

    def _run(self, cycle: RequestCycle) -> None:
        task = asyncio.get_running_loop().create_task(cycle.run(self._application))
        task.add_done_callback(self._open.tasks.discard)
        self._open.tasks.add(task)


def _place(url: bytes) -> dict[str, Any]:
    """Return the scope fields of the request target."""
    parsed = httptools.parse_url(url)
    path = parsed.path.decode("ascii")
    return {
        "path": unquote(path) if "%" in path else path,
        "raw_path": parsed.path,
        "query_string": parsed.query or b"",
    }


async def reset_connection(transport: asyncio.Transport) -> None:
    """Reset a connection after all written data has arrived: a reset discards data in transit."""
    connection: socket.socket | None = transport.get_extra_info("socket")
    while not transport.is_closing() and (transport.get_write_buffer_size() or _unsent_bytes(connection)):  # noqa: ASYNC110
        await asyncio.sleep(_FLUSH_S)  # there is no event for it
    if connection is not None and connection.fileno() >= 0:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    transport.abort()


def _unsent_bytes(connection: socket.socket | None) -> int:
    """Return the number of bytes that the client's system has not acknowledged, or 0 if that is unknown."""
    if connection is None or connection.fileno() < 0:
        return 0
    try:
        import fcntl  # noqa: PLC0415 - Windows has neither
        import termios  # noqa: PLC0415

        return int.from_bytes(fcntl.ioctl(connection, termios.TIOCOUTQ, b"\0\0\0\0"), sys.byteorder)
    except (OSError, ImportError):
        return 0


def has_left(transport: asyncio.Transport) -> bool:
    """Return whether the client has closed the connection, even if its end was not read yet."""
    wrapped: socket.socket | None = transport.get_extra_info("socket")
    if wrapped is None or wrapped.fileno() < 0:
        return True
    connection = socket.socket(wrapped.family, wrapped.type, wrapped.proto, fileno=wrapped.fileno())
    try:
        pending = connection.recv(_TLS_ALERT_BYTES + 1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        is_tls = transport.get_extra_info("ssl_object") is not None
        return not pending or (is_tls and len(pending) <= _TLS_ALERT_BYTES)
    except BlockingIOError:
        return False
    except OSError:
        return True
    finally:
        connection.detach()


async def send_response(
    answer: HttpResponse, scope: Scope, receive: Receive, send: Send, *, clock: ResponseClock = LOOP_CLOCK
) -> bool:
    """Send `answer`, until it has ended or the client has left, and return whether it was sent completely.

    Its parts are due on `clock`.
    """
    if answer.status in STATUSES_WITHOUT_BODY:
        answer = replace(answer, frames=())
    if answer.is_single_frame:
        at_ms, data = answer.frames[0] if answer.frames else (0.0, b"")
        if at_ms > 0 and await _leaves_within(receive, at_ms / 1000.0, clock):
            return False
        await send(_head(answer, scope))
        await send({"type": "http.response.body", "body": data})
        return True
    leaving = asyncio.ensure_future(until_client_leaves(receive))
    try:
        return await _ResponseSender(scope, leaving, send, clock).send(answer)
    finally:
        leaving.cancel()


class _ResponseSender:
    """Sends one answer in pieces. `leaving` is done when the client has left."""

    def __init__(self, scope: Scope, leaving: asyncio.Future[None], send: Send, clock: ResponseClock) -> None:
        self._transport: asyncio.Transport = scope[TRANSPORT]
        self._scope, self._leaving, self._send, self._clock = scope, leaving, send, clock
        self._started_s = clock.time()

    async def send(self, answer: HttpResponse) -> bool:
        if answer.status is not None:
            await self._send(_head(answer, self._scope))
        for at_ms, data in answer.frames:
            if await self._left_before(at_ms):
                return False
            await self._send({"type": "http.response.body", "body": data, "more_body": True})
        if answer.live is not None and not await self._send_live(answer.live()):
            return False
        if await self._left_before(answer.end_ms):
            return False
        await self._end(answer)
        return answer.ending == "complete"

    async def _send_live(self, frames: AsyncGenerator[bytes]) -> bool:
        """Send frames as they arrive, and return whether they ended before the client left."""
        sending = asyncio.ensure_future(self._send_all(frames))
        try:
            await asyncio.wait([sending, self._leaving], return_when=asyncio.FIRST_COMPLETED)
            return sending.done() and sending.result() is None
        finally:
            sending.cancel()

    async def _send_all(self, frames: AsyncGenerator[bytes]) -> None:
        async with aclosing(frames):
            async for data in frames:
                await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def _end(self, answer: HttpResponse) -> None:
        match answer.ending:
            case "complete":
                await self._send({"type": "http.response.body", "body": b""})
            case "cut":
                self._transport.close()
                await self._leaving
            case "reset" | "silence":
                with self._clock.working():
                    await reset_connection(self._transport)
                await self._leaving

    async def _left_before(self, due_ms: float) -> bool:
        """Wait until a frame is due, and return whether the client has left before."""
        wait_ms = due_ms - (self._clock.time() - self._started_s) * 1000.0
        if wait_ms > 0:
            await self._clock.wait(self._leaving, wait_ms / 1000.0)
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


async def while_client_waits(work: Coroutine[Any, Any, T], receive: Receive) -> T | None:
    """Return the result of `work`, or None if the client leaves first, which cancels it."""
    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(until_client_leaves(receive))
    try:
        await asyncio.wait([working, leaving], return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        working.cancel()
        leaving.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def _leaves_within(receive: Receive, wait_s: float, clock: ResponseClock) -> bool:
    """Return whether the client leaves within `wait_s`."""
    leaving = asyncio.ensure_future(until_client_leaves(receive))
    try:
        await clock.wait(leaving, wait_s)
        return leaving.done()
    finally:
        leaving.cancel()


MAX_HELD_BYTES = 1024 * 1024


class DirectApplication(Protocol):
    """An application that can also answer a whole request at once, like `WireApp`."""

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]: ...

    def accept(self, request: HttpRequest) -> AcceptedCall | None: ...

    def numbering_session(self, request: HttpRequest) -> WireSession | None: ...

    def open_websocket(self, request: HttpRequest, connection: WebSocketConnection) -> Activity: ...


class DirectConnection(HttpConnection, asyncio.BufferedProtocol):
    """Holds a request until it is complete, and has `application.accept` answer it in its turn among the `arrivals`.

    An immediate answer is sent directly. Everything else goes to the application: accepted calls with other answers,
    and requests that are not a plain POST, are large, or arrive before an earlier one is answered.

    All connections of a loop read into `buffer`, one at a time: a new buffer for each read would cost more than
    handling its data.
    """

    def __init__(
        self,
        application: DirectApplication,
        open_connections: OpenConnections,
        *,
        arrivals: ArrivalOrder,
        buffer: memoryview,
    ) -> None:
        super().__init__(application, open_connections)
        self._direct, self._arrivals, self._buffer = application, arrivals, buffer
        self._websocket: WebSocketConnection | None = None
        self._is_held = False
        self._pieces: list[bytes] = []
        self._receiver: AcceptedCall | None = None
        self._activity: Activity = ANY_ACTIVITY

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._activity.count += 1

    def connection_lost(self, exc: Exception | None) -> None:
        self._activity.count += 1
        self._arrivals.leave(self)
        if exc is not None and self._receiver is not None:
            self._receiver.left()  # a client that reads its answer before it leaves resets nothing
        if self._websocket is not None:
            self._websocket.connection_lost()
        super().connection_lost(exc)

    @property
    def is_in_body(self) -> bool:
        return self._is_held or super().is_in_body

    @property
    def phase(self) -> Phase:
        return super().phase if self._websocket is None else "response"

    def data_received(self, data: bytes) -> None:
        if self._websocket is not None:
            self._websocket.feed(data)
            return
        super().data_received(data)
        if self._is_held:
            self._arrivals.begin(self)

    def on_upgrade(self, rest: bytes) -> None:
        request = self._http_request("GET")
        is_websocket = request.headers.get("upgrade", "").lower() == "websocket" and self.parser.get_method() == b"GET"
        if not is_websocket or not (self.cycle is None or self.cycle.response_complete):
            super().on_upgrade(rest)
            return
        from offbook.wire.websocket.connection import WebSocketConnection  # noqa: PLC0415 - most clients use none

        self._websocket = WebSocketConnection(self.transport, self.flow, self._open.tasks)
        self._activity = self._direct.open_websocket(request, self._websocket)
        self._websocket.feed(rest)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._websocket is not None:
            self.flow.resume_reading()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._activity.count += 1
        self.data_received(bytes(self._buffer[:nbytes]))

    def on_head(self) -> None:
        self._receiver = None
        if self.scope is not None and self._may_be_held():
            self.scope["method"] = "POST"
            self._is_held = True
            self._pieces = []
        else:
            super().on_head()

    def on_body(self, body: bytes) -> None:
        if not self._is_held:
            super().on_body(body)
            return
        self._pieces.append(body)
        self._body_bytes += len(body)
        if self._body_bytes > MAX_HELD_BYTES:
            self._hand_over()
            self._arrivals.leave(self)

    def on_message_begin(self) -> None:
        if self._is_held:
            self._arrivals.leave(self)  # the client sends another request before this one is answered
        super().on_message_begin()

    def on_message_complete(self) -> None:
        if self._is_held:
            self.is_in_message = False
            self._arrivals.complete(self)
        else:
            super().on_message_complete()

    def numbering_session(self) -> WireSession | None:
        return self._direct.numbering_session(self._http_request())

    def answer_held(self) -> None:
        accepted = self._direct.accept(self._http_request())
        if accepted is not None:
            self._activity = accepted.session.clock.activity
            self._activity.count += 1
        answer = None if accepted is None or accepted.is_ordered else accepted.answer
        data = None if answer is None else answer.immediate_bytes
        if data is not None and not self.flow.is_writing_paused:
            self._is_held = False
            self._note_receiver(accepted)
            self.transport.write(data)
        else:
            self._hand_over(accepted)
            super().on_message_complete()

    def _note_receiver(self, accepted: AcceptedCall | None) -> None:
        """Note the receiver of an answer of an exploration, or that the client had left after its own timeout."""
        if accepted is None or not accepted.session.is_explored:
            return
        self._receiver = accepted
        if has_left(self.transport):
            accepted.left()

    def _may_be_held(self) -> bool:
        is_idle = self.cycle is None or self.cycle.response_complete
        is_small = self._content_length <= MAX_HELD_BYTES
        parser = self.parser
        is_plain = parser.get_method() == b"POST" and self._version == "1.1" and parser.should_keep_alive()
        return is_idle and is_small and is_plain and not self.expects_100

    def _http_request(self, method: str = "POST") -> HttpRequest:
        url = httptools.parse_url(self.url)
        path = url.path.decode("ascii")
        return HttpRequest(
            method,
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
            self._feed_body(b"".join(self._pieces))
