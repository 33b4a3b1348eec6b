"""The connections of the server: limits requests, sends responses on time, and ends them as they say."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Coroutine, MutableMapping
from contextlib import aclosing
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from urllib.parse import unquote, urlsplit

import httptools
from msgspec import Struct
from msgspec.structs import replace

from offbook.wire.backend import ACCEPTED_CALL, AcceptedCall
from offbook.wire.request import HttpRequest, header_dict
from offbook.wire.response import STATUSES_WITHOUT_BODY, HttpResponse
from offbook.wire.server.arrival_order import ArrivalOrder
from offbook.wire.server.http_protocol import (
    TRANSPORT,
    Application,
    HttpConnection,
    OpenConnections,
    Phase,
    Receive,
    RequestCycle,
    Scope,
    Send,
)
from offbook.wire.server.listener import has_left, reset_connection
from offbook.wire.server.session_clock import ANY_ACTIVITY, LOOP_CLOCK, Activity, ResponseClock
from offbook.wire.session import WireSession

if TYPE_CHECKING:
    from offbook.wire.websocket.connection import WebSocketConnection

T = TypeVar("T")


class RequestLimits(Struct, frozen=True, kw_only=True):
    """The maximum sizes of a request in bytes: its body, its URL, and URL and headers together; and how many headers.

    `all_bodies_bytes` is the maximum of all bodies that are being received at the same time.
    """

    body_bytes: int = 64 * 1024 * 1024
    all_bodies_bytes: int = 512 * 1024 * 1024
    header_bytes: int = 64 * 1024
    header_count: int = 1_000
    url_bytes: int = 32 * 1024


REQUEST_LIMITS: RequestLimits = RequestLimits()

_MAX_FRAMING = 8
"""How many bytes of chunk sizes and extensions a byte of a body may have: one in a chunk of its own has five."""


class _RefusedRequestError(Exception):
    """A request whose head is refused, by status and message. The parser turns it into an error of its own."""


class ClientConnection(HttpConnection):
    """One connection, which refuses requests that are too large or could be read in two ways (RFC 9112).

    The parser refuses the rest of what is ambiguous: two lengths, a length beside chunks, folded headers, bare line
    feeds, and spaces before a colon.
    """

    def __init__(self, application: Application, open_connections: OpenConnections) -> None:
        super().__init__(application, open_connections)
        self._refusal: tuple[int, str] | None = None
        self._begun_at_bytes = self._body_bytes = self._content_length = self._host_count = 0
        self._transfer_encoding, self._version = b"", ""
        self._earlier: list[RequestCycle] = []

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.is_in_message:
            size = self.received_bytes - self._begun_at_bytes
            if self.is_in_head:
                if size > REQUEST_LIMITS.header_bytes:
                    self.refuse(431, "the headers are too large")
            elif size > 2 * REQUEST_LIMITS.header_bytes + _MAX_FRAMING * self._body_bytes:
                self.refuse(400, "the body is mostly chunk extensions or trailers")

    def connection_lost(self, exc: Exception | None) -> None:
        for cycle in self._earlier:
            cycle.disconnected = not cycle.response_complete
            cycle.message_event.set()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._body_bytes = self._content_length = self._host_count = 0
        self._begun_at_bytes, self._transfer_encoding = self.received_bytes, b""

    def note_header(self, name: bytes, value: bytes) -> None:
        super().note_header(name, value)
        if name == b"host":
            self._host_count += 1
        elif name == b"content-length":
            self._content_length = int(value)
        elif name == b"transfer-encoding":
            self._transfer_encoding = value

    def on_headers_complete(self) -> None:
        try:
            self._check_head()
        except _RefusedRequestError as error:
            self._refusal = error.args
            raise
        super().on_headers_complete()

    def _check_head(self) -> None:
        if len(self.url) > REQUEST_LIMITS.url_bytes:
            raise _RefusedRequestError(414, "the URL is too long")
        if len(self.url) + sum(map(len, chain.from_iterable(self.headers))) > REQUEST_LIMITS.header_bytes:
            raise _RefusedRequestError(431, "the headers are too large")
        if len(self.headers) > REQUEST_LIMITS.header_count:
            raise _RefusedRequestError(431, "there are too many headers")
        version = self._version = self.parser.get_http_version()
        if version not in ("1.1", "1.0"):
            raise _RefusedRequestError(505, "this server speaks HTTP/1.1")
        if self._host_count != 1 and (version == "1.1" or self._host_count):
            raise _RefusedRequestError(400, "a request names one Host")
        if self._transfer_encoding and (version == "1.0" or self._transfer_encoding.lower() != b"chunked"):
            raise _RefusedRequestError(501, "this transfer encoding is not supported, only chunked")
        if not self.url.startswith(b"/"):
            self._take_host_of_target()

    def _take_host_of_target(self) -> None:
        """Let the host of `GET http://host/path` be the Host, whatever the header says."""
        target = urlsplit(self.url)
        if target.netloc:
            self.headers[:] = [(b"host", target.netloc), *(header for header in self.headers if header[0] != b"host")]

    def on_head(self) -> None:
        earlier = self.cycle
        super().on_head()
        if earlier is not None and not earlier.response_complete:
            self._earlier = [*(cycle for cycle in self._earlier if not cycle.response_complete), earlier]

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        super().on_body(body)

    def refuse_invalid(self) -> None:
        if self._refusal is None:
            super().refuse_invalid()
        else:
            self.refuse(*self._refusal)


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
        """Send frames as they come, and return whether they ended before the client left."""
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
    """Return the result of `work`, or None if the client leaves before, which cancels it."""
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
    """An application that can also answer a whole request at once, as `WireApp` does."""

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]: ...

    def accept(self, request: HttpRequest) -> AcceptedCall | None: ...

    def numbering_session(self, request: HttpRequest) -> WireSession | None: ...

    def open_websocket(self, request: HttpRequest, connection: WebSocketConnection) -> Activity: ...


class DirectConnection(ClientConnection, asyncio.BufferedProtocol):
    """Holds a request until it is complete, and has `application.accept` answer it when it is its turn in `arrivals`.

    An answer that is due at once is sent directly. Everything else goes to the application: accepted calls with other
    answers, and requests that are not a plain POST, are large, or arrive before an earlier one is answered.

    All connections of a loop read into `buffer`, one after the other: a new buffer for each read would cost more than
    handling what was read.
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
        """Note who gets an answer of an exploration, or that nobody does: it came after the client's own timeout."""
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
            HttpConnection.on_body(self, b"".join(self._pieces))
