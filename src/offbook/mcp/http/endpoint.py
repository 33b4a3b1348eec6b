"""MCP over Streamable HTTP: one endpoint of one session, in both eras, and the streams that its clients can resume.

An answer becomes JSON or server-sent events. Clients of HTTP+SSE (2024) are served as well.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
import secrets
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from msgspec.structs import replace

from offbook.codecs.framing import encode_sse_event
from offbook.mcp.answer import McpAnswer, error_answer, whole_answer
from offbook.mcp.dialogue import AnswerSender, OwnMessage, subscriber
from offbook.mcp.message import (
    CAPABILITIES_META,
    HANDSHAKE_VERSIONS,
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MODERN_VERSIONS,
    PARSE_ERROR,
    UNSUPPORTED_VERSION,
    VERSION_META,
    McpMessage,
    MessageError,
    encode_batch,
    error_message,
    is_batch,
    parse_batch,
    parse_message,
)
from offbook.mcp.session import McpSession
from offbook.mcp.stdio import LineServer
from offbook.wire.request import HttpRequest
from offbook.wire.response import JSON_TYPE, Frame, HttpResponse

SESSION_ID = "mcp-session-id"
VERSION_HEADER = "mcp-protocol-version"
SESSION_NOT_FOUND = -32001
NAMED_PARAMS = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""The parameter that the header `Mcp-Name` repeats, by method."""

_ERROR_STATUS = {PARSE_ERROR: 400, INVALID_REQUEST: 400, INVALID_PARAMS: 400, -32021: 400, METHOD_NOT_FOUND: 404} | {
    HEADER_MISMATCH: 400,
    UNSUPPORTED_VERSION: 400,
}
BATCH_VERSION = "2025-03-26"
_BASE64_VALUE = re.compile(r"=\?base64\?(.*)\?=")


SSE_TYPE = "text/event-stream"
SSE_HEADERS = {"content-type": SSE_TYPE, "cache-control": "no-cache"}
MAX_EVENTS = 1_000
MAX_STREAMS = 64
MAX_STREAM_BYTES = 1024 * 1024
"""The limits of the data kept for a client that resumes: events of a stream, streams of a client, bytes of a stream."""

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
        """Drop the oldest events above the limit, except unread ones."""
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
        """Return whether everything after an event is still available."""
        first = self._events[0][0] if self._events else self._count + 1
        return first - 1 <= number <= self._count

    async def follow(self, after: int) -> AsyncGenerator[bytes]:
        """Yield the events after a number, also later ones, until the stream ends."""
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
    """The streams of one client: its GET stream, and those of its calls."""

    def __init__(self) -> None:
        self.sender = AnswerSender()
        self._streams: dict[str, EventStream] = {}
        self._opened = 0
        self._stop_listening: Callable[[], None] | None = None

    def listen(self, listen: Callable[[Callable[[OwnMessage], None]], Callable[[], None]]) -> None:
        """Send the server's own messages on the GET stream."""
        if self._stop_listening is None:
            self._stop_listening = listen(lambda message: self.sender.notify(message, self._standing.write))

    @property
    def _standing(self) -> EventStream:
        return self._streams.setdefault(STANDING, EventStream(STANDING))

    def stand(self) -> HttpResponse:
        """Return the standing stream, from the first unread event."""
        stream = self._standing
        return _live_response(partial(stream.follow, stream.read_count))

    def resume(self, last_event_id: str) -> HttpResponse | None:
        """Return the rest of a stream after an event, or None if it is gone."""
        name, _, number = last_event_id.rpartition("-")
        stream = self._streams.get(name)
        is_known = stream is not None and number.isascii() and number.isdigit() and stream.has(int(number))
        return _live_response(partial(stream.follow, int(number))) if stream is not None and is_known else None

    def open(self) -> EventStream:
        """Open the stream of a call."""
        self._opened += 1
        stream = self._streams[str(self._opened)] = EventStream(str(self._opened))
        for name in [name for name, each in self._streams.items() if each.has_ended][:-MAX_STREAMS]:
            del self._streams[name]
        return stream

    def converse(self, *answers: tuple[McpMessage, McpAnswer]) -> HttpResponse:
        """Return answers with server requests message by message on one stream."""
        stream = self.open()
        sink = _SharedStream(stream, len(answers))
        for request, answer in answers:
            self.sender.send(request, answer, sink)
        is_cut = any(answer.ending == "cut" for _, answer in answers)
        return _live_response(partial(stream.follow, 0), is_cut=is_cut)

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


def _live_response(live: Callable[[], AsyncGenerator[bytes]], *, is_cut: bool = False) -> HttpResponse:
    return HttpResponse(200, dict(SSE_HEADERS), is_streamed=True, ending="cut" if is_cut else "complete", live=live)


CLIENT_QUERY = "offbook_client"


def opens_stream(headers: Mapping[str, str]) -> bool:
    """Return whether a GET opens the transport of 2024, whose clients have neither sessions nor versions."""
    return SESSION_ID not in headers and VERSION_HEADER not in headers and SSE_TYPE in headers.get("accept", "")


class SseClients:
    """The clients of one session over HTTP+SSE: each is served as over stdio, by its lines."""

    def __init__(self, session: McpSession) -> None:
        self._session = session
        self._servers: dict[str, LineServer] = {}

    def open(self) -> HttpResponse:
        """Return the stream of a new client, which first announces the address for its messages."""
        return _live_response(self._serve, is_cut=True)

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
        """Handle a client's POST, or return None if it is not a client of this transport."""
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


class HttpEndpoint:
    """Answers the HTTP requests of one session to one server from its recording, statelessly for modern clients."""

    def __init__(self, session: McpSession) -> None:
        self.session = session
        self._clients: dict[str, ClientStreams] = {}
        self._sse_clients = SseClients(session)

    def respond(self, request: HttpRequest) -> HttpResponse:
        """Return the response to a request."""
        accepted = self._accept(request)
        if isinstance(accepted, HttpResponse):
            return accepted
        return self._to_http([(each, self._answer(each)) for each in accepted], request)

    async def respond_after_work(self, request: HttpRequest) -> HttpResponse:
        """Return the response to a request whose answer may take time."""
        accepted = self._accept(request)
        if isinstance(accepted, HttpResponse):
            return accepted
        answers = [(each, self._answer(each)) for each in accepted]
        done = [(each, answer if answer.work is None else await answer.work()) for each, answer in answers]
        return self._to_http(done, request)

    def _accept(self, request: HttpRequest) -> list[McpMessage] | HttpResponse:
        """Return the requests to answer, or the response without any."""
        match request.method:
            case "POST":
                return self._sse_clients.receive(request) or self._accept_post(request)
            case "GET" if opens_stream(request.headers):
                return self._sse_clients.open()
            case "GET" | "DELETE":
                return self._get_or_delete(request)
            case _:
                return _not_allowed("GET, POST, DELETE")

    def _get_or_delete(self, request: HttpRequest) -> HttpResponse:
        session_id = request.headers.get(SESSION_ID)
        if session_id is None or request.headers.get(VERSION_HEADER) in MODERN_VERSIONS:
            return _not_allowed("POST")
        client = self._clients.get(session_id)
        if client is None:
            return _gone(None)
        if request.method == "DELETE":
            self._forget(session_id)
            return HttpResponse(200)
        last_event_id = request.headers.get("last-event-id")
        if not last_event_id:
            return client.stand()
        reason = "the events after this Last-Event-ID are not known"
        return client.resume(last_event_id) or _json(400, error_message(None, INVALID_REQUEST, reason))

    def _forget(self, session_id: str) -> None:
        client = self._clients.pop(session_id, None)
        if client is not None:
            client.close()

    def _accept_post(self, request: HttpRequest) -> list[McpMessage] | HttpResponse:
        try:
            messages = _parse(request)
        except MessageError as error:
            is_json = "not JSON:" not in str(error)
            reason = "Invalid Request: one JSON-RPC message is expected" if is_json else f"Parse error: {error}"
            return _json(400, error_message(None, INVALID_REQUEST if is_json else PARSE_ERROR, reason))
        for message in messages:
            refusal = (
                check_request(message, request.headers)
                or self._check_session(message, request.headers)
                or self._check_tool_headers(message, request.headers)
            )
            if refusal is not None:
                return refusal
        client = self._clients.get(request.headers.get(SESSION_ID, ""))
        for message in messages:
            if client is not None and not message.is_request:
                self._hear(message, client)
        return [message for message in messages if message.is_request] or HttpResponse(202)

    def _hear(self, message: McpMessage, client: ClientStreams) -> None:
        """Handle a client's message that is not a request."""
        if message.is_response:
            client.sender.receive(message)
        elif message.method == "notifications/initialized":
            client.listen(self.session.listen)
        elif message.method == "notifications/cancelled":
            client.sender.cancel(message.params.get("requestId"))

    def _answer(self, message: McpMessage) -> McpAnswer:
        answer = self.session.answer(self.session.start(message))
        assert answer is not None, "a session that is not live answers everything"
        return answer

    def _check_session(self, message: McpMessage, headers: Mapping[str, str]) -> HttpResponse | None:
        """Return the refusal of a request in the handshake era, or None."""
        if is_modern(message, headers) or message.method == "initialize":
            return None
        session_id = headers.get(SESSION_ID)
        if session_id is None:
            reason = "Bad Request: no session; start with initialize, or name the protocol version in _meta"
            return _json(400, error_message(message.id, INVALID_REQUEST, reason))
        return None if session_id in self._clients else _gone(message.id)

    def _check_tool_headers(self, message: McpMessage, headers: Mapping[str, str]) -> HttpResponse | None:
        """Return the refusal of a modern call whose headers do not repeat the arguments that its tool requires."""
        if not message.tool or not is_modern(message, headers):
            return None
        arguments = message.params.get("arguments")
        given = arguments if isinstance(arguments, dict) else {}
        for header, name in self.session.source.tool_headers(message.tool).items():
            value = given.get(name)
            sent = decode_header(headers.get(f"mcp-param-{header.lower()}"))
            if value is not None and (sent is None or not _is_same_value(sent, value)):
                reason = f"the header mcp-param-{header.lower()} does not match the argument {name}"
                return to_http(_refuse(message, HEADER_MISMATCH, reason), message)
        return None

    def _to_http(self, answers: Sequence[tuple[McpMessage, McpAnswer]], request: HttpRequest) -> HttpResponse:
        session_id = request.headers.get(SESSION_ID, "")
        accepts_sse = SSE_TYPE in request.headers.get("accept", SSE_TYPE)
        client = self._clients.get(session_id)
        if any(answer.forgets_session for _, answer in answers):
            self._forget(session_id)
        if is_batch(request.body):
            response = batch_response(answers, client or ClientStreams())
        else:
            response = self._one_to_http(*answers[0], client, accepts_sse=accepts_sse)
        if answers[0][0].method != "initialize" or answers[0][0].era == "modern":
            return response
        session_id = secrets.token_hex(16)
        self._clients[session_id] = ClientStreams()
        return replace(response, headers=response.headers | {SESSION_ID: session_id})

    def _one_to_http(
        self, request: McpMessage, answer: McpAnswer, client: ClientStreams | None, *, accepts_sse: bool
    ) -> HttpResponse:
        if request.method == "subscriptions/listen" and answer.ending == "silence":
            return _subscription(request, answer, self.session)
        if answer.asks_client and client is not None and accepts_sse:
            return client.converse((request, answer))
        if answer.on_sent is not None:
            _call_later(answer.on_sent, answer.end_ms)
        size = sum(len(raw) for _, raw in answer.messages) if len(answer.messages) > 1 else 0
        is_resumable = answer.ending == "complete" and not answer.noise and 0 < size <= MAX_STREAM_BYTES
        stream = client.open() if client is not None and is_resumable else None
        return to_http(answer, request, accepts_sse=accepts_sse, stream=stream)


def _is_same_value(sent: str, value: object) -> bool:
    """Return whether a header has the value of an argument: text unchanged, other values as JSON."""
    return sent == (value if isinstance(value, str) else msgspec.json.encode(value).decode())


def _parse(request: HttpRequest) -> list[McpMessage]:
    """Parse the messages of a body. Batches are of revision 2025-03-26: clients of later ones name their version."""
    version = request.headers.get(VERSION_HEADER, BATCH_VERSION)
    if is_batch(request.body) and version == BATCH_VERSION:
        return parse_batch(request.body)
    return [parse_message(request.body)]


def _call_later(call: Callable[[], None], after_ms: float) -> None:
    """Call a function when an answer due in `after_ms` was sent, or at once without an event loop."""
    try:
        asyncio.get_running_loop().call_later(after_ms / 1000.0, call)
    except RuntimeError:
        call()


def _subscription(request: McpMessage, answer: McpAnswer, session: McpSession) -> HttpResponse:
    """Return the stream of a `subscriptions/listen`, which ends when the client leaves."""
    stream = EventStream()
    for _, raw in answer.messages:
        stream.write(raw)

    async def follow() -> AsyncGenerator[bytes]:
        stop_listening = session.listen(subscriber(request, stream.write))
        try:
            async for event in stream.follow(0):
                yield event
        finally:
            stop_listening()

    return _live_response(follow)


def batch_response(answers: Sequence[tuple[McpMessage, McpAnswer]], client: ClientStreams) -> HttpResponse:
    """Return the answers to a batch: as a JSON array, or as events if one of them is more than one message."""
    if all(len(answer.messages) == 1 and answer.ending == "complete" for _, answer in answers):
        for _, answer in answers:
            if answer.on_sent is not None:
                _call_later(answer.on_sent, answer.end_ms)
        at_ms = max(answer.messages[0][0] for _, answer in answers)
        body = encode_batch(answer.messages[0][1] for _, answer in answers)
        return HttpResponse(200, {"content-type": JSON_TYPE}, ((at_ms, body),), end_ms=at_ms)
    return client.converse(*answers)


def to_http(
    answer: McpAnswer, request: McpMessage, *, accepts_sse: bool = True, stream: EventStream | None = None
) -> HttpResponse:
    """Return an answer as an HTTP response: JSON for one immediate message, else server-sent events, kept with ids in a
    `stream` for a client that resumes it.
    """
    if answer.ending == "exit":
        return HttpResponse(None, ending="reset")
    is_whole = answer.ending == "complete" and not answer.noise
    if is_whole and (len(answer.messages) == 1 or not accepts_sse):
        at_ms, raw = answer.messages[-1]
        status = _status(answer, raw) if request.era == "modern" else answer.status
        return HttpResponse(status, {"content-type": JSON_TYPE} | answer.headers, ((at_ms, raw),), end_ms=at_ms)
    if answer.ending == "silence" and not answer.messages:
        return HttpResponse(None, ending="silence", end_ms=answer.end_ms)
    frames = sse_frames(answer, stream)
    if stream is not None:
        for _, raw in answer.messages:
            stream.write(raw)
        stream.end()
    return HttpResponse(
        answer.status,
        SSE_HEADERS | answer.headers,
        tuple(frames),
        is_streamed=True,
        ending=answer.ending,
        end_ms=max(answer.end_ms, frames[-1][0] if frames else 0.0),
    )


def sse_frames(answer: McpAnswer, stream: EventStream | None = None) -> list[Frame]:
    """Return the messages of an answer as events, with the ids of a `stream`, if given."""
    frames = [(0.0, encode_sse_event(answer.noise, "message"))] if answer.noise else []
    return frames + [
        (at_ms, encode_sse_event(raw, "message") if stream is None else stream.encode(raw, number))
        for number, (at_ms, raw) in enumerate(answer.messages, 1)
    ]


def _status(answer: McpAnswer, raw: bytes) -> int:
    """Return the status of a modern answer. Protocol errors have their own."""
    error = parse_message(raw).fields.get("error")
    code = error.get("code") if isinstance(error, dict) else None
    return _ERROR_STATUS.get(code, answer.status) if isinstance(code, int) else answer.status


def is_modern(message: McpMessage, headers: Mapping[str, str]) -> bool:
    """Return whether a message over HTTP is of the modern era, by its header or by its `_meta`."""
    if message.method == "initialize" and message.era != "modern":
        return False
    return headers.get(VERSION_HEADER) in MODERN_VERSIONS or message.era == "modern"


def check_request(message: McpMessage, headers: Mapping[str, str]) -> HttpResponse | None:
    """Return the refusal of a message for its headers, in the words of a server of its era, or None."""
    version = headers.get(VERSION_HEADER)
    if not is_modern(message, headers):
        if version is None or version in HANDSHAKE_VERSIONS or message.method == "initialize":
            return None
        data = {"supported": [*HANDSHAKE_VERSIONS, *MODERN_VERSIONS], "requested": version}
        raw = error_message(message.id, UNSUPPORTED_VERSION, "Unsupported protocol version", data)
        return _json(400, raw)
    if not message.is_request:
        return None
    answer = _check_modern(message, headers)
    return None if answer is None else to_http(answer, message)


def _check_modern(message: McpMessage, headers: Mapping[str, str]) -> McpAnswer | None:
    version = message.meta.get(VERSION_META)
    missing = [name for name in (VERSION_META, CAPABILITIES_META) if name not in message.meta]
    if missing:
        return _refuse(message, INVALID_PARAMS, f"params._meta lacks {', '.join(missing)}")
    if headers.get(VERSION_HEADER) != version:
        return _refuse(message, HEADER_MISMATCH, f"the header {VERSION_HEADER} does not match the version in _meta")
    if headers.get("mcp-method") != message.method:
        return _refuse(message, HEADER_MISMATCH, "the header mcp-method does not match the method")
    named = message.params.get(NAMED_PARAMS.get(message.method, ""))
    if named is not None and decode_header(headers.get("mcp-name")) != named:
        return _refuse(message, HEADER_MISMATCH, "the header mcp-name does not match the parameters")
    if version not in MODERN_VERSIONS:
        data = {"supported": list(MODERN_VERSIONS), "requested": version}
        return error_answer(message, UNSUPPORTED_VERSION, "Unsupported protocol version", data, status=400)
    return None


def _refuse(message: McpMessage, code: int, reason: str) -> McpAnswer:
    return error_answer(message, code, reason, status=400)


def decode_header(value: str | None) -> str | None:
    """Return the value of a header that may be wrapped as `=?base64?…?=`, or None if it cannot be decoded."""
    value = None if value is None else value.strip(" \t")
    wrapped = None if value is None else _BASE64_VALUE.fullmatch(value)
    if wrapped is None:
        return value
    try:
        return base64.b64decode(wrapped[1], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None


def encode_header(value: str) -> str:
    """Return a header value, wrapped as `=?base64?…?=` if necessary."""
    is_plain = value.isascii() and value.isprintable() and value == value.strip()
    if is_plain and not _BASE64_VALUE.fullmatch(value):
        return value
    return f"=?base64?{base64.b64encode(value.encode()).decode()}?="


def _json(status: int, raw: bytes) -> HttpResponse:
    return HttpResponse(status, {"content-type": JSON_TYPE}, whole_answer(raw).messages)


def _gone(id: Any) -> HttpResponse:
    return _json(404, error_message(id, SESSION_NOT_FOUND, "Session not found"))


def _not_allowed(methods: str) -> HttpResponse:
    return HttpResponse(405, {"allow": methods})
