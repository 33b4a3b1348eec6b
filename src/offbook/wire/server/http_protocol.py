"""HTTP/1.1 for an ASGI application: parses requests with httptools, and runs the application for one after the other.

A web server does much more than this, and takes longer to import than a recording takes to load.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import deque
from collections.abc import Awaitable, Callable, MutableMapping
from http import HTTPStatus
from typing import Any, Literal, TypeAlias
from urllib.parse import unquote

import httptools

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

TRANSPORT = "offbook.transport"
"""The key of an ASGI scope that holds the transport of its connection."""

MAX_UNREAD_BYTES = 64 * 1024
"""How much of a body is kept that the application has not received. Above it, nothing more is read."""

MAX_DISCARDED_BYTES = 256 * 1024 * 1024
"""How much is read of a body that is already answered, so that its client reads the answer. Above it, the connection is
closed."""

NOTED_HEADERS = frozenset((b"content-length", b"expect", b"host", b"transfer-encoding"))

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

    `on_response` is called when the response is complete. `is_kept_alive` says whether the connection stays open then.
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
        self.disconnected = self.response_complete = False
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
        """Note what the headers say about the length and the connection, and return their names in lower case."""
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
            self._complete()

    def _complete(self) -> None:
        if self._missing_bytes:
            raise RuntimeError("the body is shorter than its content-length")
        self.response_complete = True
        self.message_event.set()
        if not self._is_kept_alive:
            self._transport.close()
        self._on_response()


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
"""What a connection waits for: its first request, the next one, the rest of a head or of a body, or its response."""


class HttpConnection(asyncio.Protocol):
    """One connection of a client. Requests that are sent ahead wait until those before them are answered.

    A request to upgrade to another protocol is answered as if it had no Upgrade header, unless `on_upgrade` does
    something else. Trailers are ignored.
    `message_count` and `received_bytes` count what has arrived; `is_in_message` is whether a request has begun that is
    not complete.
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
        self._waiting: deque[RequestCycle] = deque()
        self.is_in_message = self._is_upgrade = self._is_head_complete = False
        self._discarded_bytes = 0

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
        if self.cycle is not None:
            self.cycle.disconnected = not self.cycle.response_complete
            self.cycle.message_event.set()
        self.flow.resume_writing()
        del self.parser  # it refers to this connection, which would not be freed at once

    @property
    def phase(self) -> Phase:
        """What the connection waits for."""
        if self.is_in_head:
            return "head"
        if self.is_in_body:
            return "body"
        if self.cycle is not None and not self.cycle.response_complete:
            return "response"
        return "idle" if self.message_count else "new"

    @property
    def waits_for_client(self) -> bool:
        """Whether nothing but its client keeps the connection from going on."""
        match self.phase:
            case "response":
                return self.flow.is_writing_paused
            case "body":
                return not self.flow.is_reading_paused
            case _:
                return True

    @property
    def progress(self) -> tuple[object, ...]:
        """What changes while a response is being read by its client, or may not be received yet."""
        unsent_bytes = self.transport.get_write_buffer_size() if self.flow.is_writing_paused else 0
        return self.flow.is_reading_paused, self.flow.is_writing_paused, unsent_bytes

    @property
    def is_closing(self) -> bool:
        return self.transport.is_closing()

    def give_up(self) -> None:
        """Close a connection whose client takes too long, and say so if it has begun a request."""
        if self.phase in ("head", "body") and not self.flow.is_writing_paused:
            self.refuse(408, "the request did not arrive in time")
        else:
            self.transport.abort()

    @property
    def is_in_head(self) -> bool:
        """Whether a request has begun whose head is not complete."""
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
            self.refuse_invalid()
        except httptools.HttpParserUpgrade as upgrade:
            self.on_upgrade(data[upgrade.args[0] :])

    def on_upgrade(self, rest: bytes) -> None:
        """Parse a request again without its Upgrade header, which makes the parser leave the body unread.

        Java's HTTP client asks for HTTP/2 with its first request.
        """
        method, version = self.parser.get_method(), self.parser.get_http_version().encode()
        lines = [b"%b: %b" % header for header in self.headers if header[0] != b"upgrade"]
        self._is_upgrade, self.parser = False, self._new_parser()
        self.message_count -= 1
        head = b"\r\n".join([b"%b %b HTTP/%b" % (method, self.url, version), *lines, b"", b""])
        self.received_bytes -= len(head) + len(rest)
        self.data_received(head + rest)

    def refuse_invalid(self) -> None:
        """Answer what is not HTTP, and close the connection."""
        self.refuse(400, "Invalid HTTP request received.")

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

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._is_head_complete:
            return  # it is a trailer
        name = name.lower()
        if name in NOTED_HEADERS:
            self.note_header(name, value)
        self.headers.append((name, value))

    def note_header(self, name: bytes, value: bytes) -> None:
        """Note one of the headers that change how a request is read."""
        if name == b"expect" and value.lower() == b"100-continue":
            self.expects_100 = True

    def on_headers_complete(self) -> None:
        self._is_head_complete = True
        if not self.parser.should_upgrade():
            self.on_head()
        elif self.parser.get_method() == b"CONNECT":
            raise ValueError("there is nothing to connect to")  # the parser turns it into an error of its own
        else:
            self._is_upgrade = True

    def on_head(self) -> None:
        """Hand a request whose head is complete to the application."""
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

    def on_body(self, body: bytes) -> None:
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
    """Return the fields of a scope that say what is requested."""
    parsed = httptools.parse_url(url)
    path = parsed.path.decode("ascii")
    return {
        "path": unquote(path) if "%" in path else path,
        "raw_path": parsed.path,
        "query_string": parsed.query or b"",
    }
