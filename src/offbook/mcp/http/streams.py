"""The streams of clients over HTTP: of the handshake era, which a client that was cut off resumes, and of HTTP+SSE."""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from functools import partial
from urllib.parse import parse_qsl

from offbook.codecs.framing import encode_sse_event
from offbook.mcp.answer import McpAnswer
from offbook.mcp.dialogue import AnswerSender, OwnMessage
from offbook.mcp.message import Message
from offbook.mcp.session import McpSession
from offbook.mcp.stdio import LineServer
from offbook.wire.request import HttpRequest
from offbook.wire.response import HttpResponse

SSE_TYPE = "text/event-stream"
SSE_HEADERS = {"content-type": SSE_TYPE, "cache-control": "no-cache"}
MAX_EVENTS = 1_000
MAX_STREAMS = 64
MAX_STREAM_BYTES = 1024 * 1024
"""The limits of what is kept for a client that resumes: events of a stream, streams of a client, bytes of a stream."""

STANDING = "0"
"""The name of the stream that a client opens by GET."""


class EventStream:
    """Server-sent events, which any number of readers follow. Without a `name`, events have no ids."""

    def __init__(self, name: str = "", *, event: str = "message") -> None:
        self._name, self._event = name, event
        self._events: deque[tuple[int, bytes]] = deque()
        self._size = self._count = self.read_count = self._reader_count = 0
        self._changed = asyncio.Event()
        self.has_ended = False

    def write(self, raw: bytes) -> None:
        """Append a message."""
        self._count += 1
        event = self.encode(raw, self._count)
        self._events.append((self._count, event))
        self._size += len(event)
        self._drop_old()
        self._changed.set()
        self._changed = asyncio.Event()

    def _drop_old(self) -> None:
        """Drop the oldest events of too many, but none that a reader has yet to read."""
        while len(self._events) > MAX_EVENTS or self._size > MAX_STREAM_BYTES:
            number, event = self._events[0]
            if number > self.read_count and (self._reader_count or self._name != STANDING):
                return
            self._events.popleft()
            self._size -= len(event)

    def encode(self, raw: bytes, number: int) -> bytes:
        """Return a message as an event with its id."""
        event_id = f"id: {self._name}-{number}\n".encode() if self._name else b""
        return event_id + encode_sse_event(raw, self._event)

    def end(self) -> None:
        """End the stream."""
        self.has_ended = True
        self._changed.set()

    def has(self, number: int) -> bool:
        """Return whether everything after an event is still there."""
        first = self._events[0][0] if self._events else self._count + 1
        return first - 1 <= number <= self._count

    async def follow(self, after: int) -> AsyncGenerator[bytes]:
        """Yield the events after a number, and those that come, until the stream ends."""
        self._reader_count += 1
        try:
            while not self.has_ended or after < self._count:
                changed = self._changed
                for number, event in [each for each in self._events if each[0] > after]:
                    after = number
                    self.read_count = max(self.read_count, number)
                    yield event
                if not self.has_ended and after >= self._count:
                    await changed.wait()
        finally:
            self._reader_count -= 1


class ClientStreams:
    """The streams of one client: the one that it opens by GET, and those of its calls."""

    def __init__(self) -> None:
        self.sender = AnswerSender()
        self._streams: dict[str, EventStream] = {}
        self._opened = 0
        self._stop_listening: Callable[[], None] | None = None

    def listen(self, listen: Callable[[Callable[[OwnMessage], None]], Callable[[], None]]) -> None:
        """Send what the server sends on its own on the standing stream."""
        if self._stop_listening is None:
            self._stop_listening = listen(lambda message: self.sender.notify(message, self._standing.write))

    @property
    def _standing(self) -> EventStream:
        return self._streams.setdefault(STANDING, EventStream(STANDING))

    def stand(self) -> HttpResponse:
        """Return the standing stream, from the first unread event."""
        stream = self._standing
        return _response(partial(stream.follow, stream.read_count))

    def resume(self, last_event_id: str) -> HttpResponse | None:
        """Return the rest of a stream after an event; None if that is not known any more."""
        name, _, number = last_event_id.rpartition("-")
        stream = self._streams.get(name)
        is_known = stream is not None and number.isascii() and number.isdigit() and stream.has(int(number))
        return _response(partial(stream.follow, int(number))) if stream is not None and is_known else None

    def open(self) -> EventStream:
        """Open the stream of a call."""
        self._opened += 1
        stream = self._streams[str(self._opened)] = EventStream(str(self._opened))
        for name in [name for name, each in self._streams.items() if each.has_ended][:-MAX_STREAMS]:
            del self._streams[name]
        return stream

    def converse(self, *answers: tuple[Message, McpAnswer]) -> HttpResponse:
        """Return answers in which the server asks the client something, message by message, on one stream."""
        stream = self.open()
        sink = _SharedStream(stream, len(answers))
        for request, answer in answers:
            self.sender.send(request, answer, sink)
        is_cut = any(answer.ending == "cut" for _, answer in answers)
        return _response(partial(stream.follow, 0), is_cut=is_cut)

    def close(self) -> None:
        """End all streams."""
        if self._stop_listening is not None:
            self._stop_listening()
        self.sender.close()
        for stream in self._streams.values():
            stream.end()


class _SharedStream:
    """A stream that ends when a number of answers have ended."""

    def __init__(self, stream: EventStream, count: int) -> None:
        self._stream, self._open = stream, count

    def write(self, raw: bytes) -> None:
        self._stream.write(raw)

    def end(self, answer: McpAnswer) -> None:
        self._open -= answer.ending != "silence"
        if not self._open:
            self._stream.end()


def _response(live: Callable[[], AsyncGenerator[bytes]], *, is_cut: bool = False) -> HttpResponse:
    return HttpResponse(200, dict(SSE_HEADERS), is_streamed=True, ending="cut" if is_cut else "complete", live=live)


CLIENT_QUERY = "offbook_client"


def opens_stream(headers: Mapping[str, str]) -> bool:
    """Return whether a GET is one of the transport of 2024, whose clients have neither sessions nor versions."""
    is_plain = "mcp-session-id" not in headers and "mcp-protocol-version" not in headers
    return is_plain and SSE_TYPE in headers.get("accept", "")


class SseClients:
    """The clients of one session over HTTP+SSE: each is served as over stdio, by its lines."""

    def __init__(self, session: McpSession) -> None:
        self._session = session
        self._servers: dict[str, LineServer] = {}

    def open(self) -> HttpResponse:
        """Return the stream of a new client, which is told first where its messages go."""
        return HttpResponse(200, dict(SSE_HEADERS), is_streamed=True, ending="cut", live=self._serve)

    async def _serve(self) -> AsyncGenerator[bytes]:
        key, lines = secrets.token_hex(16), _StreamLines()
        server = self._servers[key] = LineServer(self._session, lines)
        try:
            yield f"event: endpoint\ndata: ?{CLIENT_QUERY}={key}\n\n".encode()
            async for event in lines.stream.follow(0):
                yield event
        finally:
            del self._servers[key]
            server.close(0)

    def receive(self, request: HttpRequest) -> HttpResponse | None:
        """Take what a client posts; None if it is not a client of this transport."""
        key = dict(parse_qsl(request.query)).get(CLIENT_QUERY)
        if key is None:
            return None
        server = self._servers.get(key)
        if server is None:
            return HttpResponse(404)
        server.receive(b" ".join(request.body.splitlines()) + b"\n")
        return HttpResponse(202)


class _StreamLines:
    """The lines that a server writes, as events."""

    def __init__(self) -> None:
        self.stream = EventStream()

    def write(self, data: bytes) -> None:
        self.stream.write(data.rstrip(b"\n"))

    def end(self, exit_code: int) -> None:
        self.stream.end()
