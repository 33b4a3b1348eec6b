"""A WebSocket session with the real API: forwards both sides' messages, and records them exchange by exchange."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Callable
from urllib.parse import urlsplit

import httptools
import orjson
from msgspec import Struct

from offbook.errors import InputError, RecordingWriteError
from offbook.recording.format.wire_record import (
    WEBSOCKET,
    TimedFrame,
    WireRecord,
    replayable_headers,
    websocket_text,
    wire_text,
)
from offbook.recording.match.websocket import SentMessage, sent_message, turn_fields, turn_fingerprint
from offbook.wire.backend import AcceptedCall
from offbook.wire.proxy.recorder import MAX_KEPT_BYTES, WireRecorder
from offbook.wire.proxy.upstream import RawHeaders, upstream_request_headers
from offbook.wire.request import is_key_subprotocol
from offbook.wire.response import HttpResponse, error_response, refusal_response
from offbook.wire.session import CallAttempt, CallOutcome
from offbook.wire.websocket.connection import WebSocketConnection
from offbook.wire.websocket.framing import (
    ABNORMAL_CLOSURE,
    CLOSE,
    PING,
    PONG,
    PROTOCOL_ERROR,
    CloseMessage,
    FrameParser,
    FramingError,
    SocketMessage,
    accept_key,
    decode_close,
    encode_close,
    encode_frame,
    new_key,
)
from offbook.wire.websocket.handshake import opening_head, refusing_bytes
from offbook.wire.websocket.turn import SWITCHING_PROTOCOLS, TurnRequest, with_sent

logger = logging.getLogger("offbook.wire")

_SUBPROTOCOL = "sec-websocket-protocol"


class UpstreamPlace(Struct, frozen=True):
    """The destination of a session: its URL, which may raise InputError, and the `address` for messages.

    `auth` replaces the client's key if it is not None. `credentials` are all secrets of the handshake.
    """

    url: Callable[[], str]
    address: str
    auth: dict[str, str] | None
    connect_timeout_s: float
    credentials: tuple[str, ...]


class TurnCapture:
    """Both sides' messages in one exchange, with times in ms: the client's since its first message here, the server's
    since the client's last.
    """

    def __init__(self, now_s: float) -> None:
        self.sent: list[tuple[float, SentMessage]] = []
        self.frames: list[TimedFrame] = []
        self.size_bytes = 0
        self._first_s = self._last_s = now_s

    def add_sent(self, message: SocketMessage, now_s: float) -> None:
        self._first_s, self._last_s = (self._first_s if self.sent else now_s), now_s
        self.sent.append((_ms(now_s - self._first_s), sent_message(message.data, is_text=message.is_text)))
        self.size_bytes += len(message.data)

    def add_frame(self, message: SocketMessage, now_s: float) -> None:
        self.frames.append((_ms(now_s - self._last_s), websocket_text(message.data, is_text=message.is_text)))
        self.size_bytes += len(message.data)


def _ms(seconds: float) -> float:
    return round(seconds * 1000.0, 3)


class LiveSession:
    """Forwards one session to the real API. An exchange is recorded before the client's next message is forwarded.

    Planned faults do not fire, because the server's messages are unknown before they are forwarded.
    """

    def __init__(
        self,
        connection: WebSocketConnection,
        accepted: AcceptedCall,
        recorder: WireRecorder,
        place: UpstreamPlace,
    ) -> None:
        assert accepted.attempt is not None
        assert isinstance(accepted.attempt.parsed, TurnRequest)
        self._connection, self._session, self._request = connection, accepted.session, accepted.request
        self._recorder, self._place = recorder, place
        self._handshake: TurnRequest = accepted.attempt.parsed
        self._attempt: CallAttempt | None = accepted.attempt
        self._socket: UpstreamSocket | None = None
        self._early: list[SocketMessage] = []
        self._turn = TurnCapture(self._now_s())
        self._headers: dict[str, str] = {}
        self._after, self._ids = "", dict[str, str]()
        self._has_ended = False

    def receive(self, message: SocketMessage) -> None:
        if self._socket is None:
            self._early.append(message)
            return
        if self._turn.frames or self._attempt is not None:
            self._record()
        self._turn.add_sent(message, self._now_s())
        self._socket.send(message)

    def lost(self) -> None:
        """Record the rest, and leave the real API."""
        self._end()
        if self._socket is not None:
            self._connection.start(self._socket.close(CloseMessage(1000)))

    async def run(self) -> None:
        """Open the session at the real API, and forward its messages until one side ends it."""
        try:
            self._socket = await connect(
                self._place.url(), self._upstream_headers(), timeout_s=self._place.connect_timeout_s
            )
        except RefusedHandshakeError as refusal:
            self._refuse(refusal)
            return
        except InputError as error:
            self._answer_error(refusal_response(self._handshake.route.any_codec, 400, str(error)), "refused")
            return
        except (OSError, TimeoutError, ValueError) as error:
            self._answer_unreachable(error)
            return
        self._open(self._socket)
        async for message in self._socket.messages():
            if isinstance(message, CloseMessage):
                self._forward_close(message)
                return
            self._turn.add_frame(message, self._now_s())
            self._connection.write(encode_frame(message.opcode, message.data))
            if self._connection.flow.is_writing_paused:
                await self._connection.flow.until_writable()

    def _open(self, socket: UpstreamSocket) -> None:
        self._headers = {name: value for name, value in socket.headers.items() if name == _SUBPROTOCOL}
        if is_key_subprotocol(self._headers.get(_SUBPROTOCOL, "")):
            self._headers = {}
        self._connection.write(opening_head(self._request, self._headers))
        self._turn = TurnCapture(self._now_s())
        early, self._early = self._early, []
        for message in early:
            self.receive(message)

    def _upstream_headers(self) -> RawHeaders:
        """Return the headers of the client's handshake. A key in its subprotocols is treated like other keys."""
        auth = self._place.auth
        raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in self._request.headers.items()]
        headers = upstream_request_headers(raw, auth=auth)
        if auth is None:
            return headers
        offered = self._request.headers.get(_SUBPROTOCOL, "").split(",")
        kept = ", ".join(name.strip() for name in offered if not is_key_subprotocol(name.strip()))
        others = [header for header in headers if header[0] != _SUBPROTOCOL.encode()]
        return [*others, (_SUBPROTOCOL.encode(), kept.encode("latin-1"))] if kept else others

    def _forward_close(self, close: CloseMessage) -> None:
        self._end(close)
        if close.code == ABNORMAL_CLOSURE:
            self._connection.transport.close()
        else:
            self._connection.close(close)

    def _end(self, close: CloseMessage | None = None) -> None:
        """Record the last exchange. Safe to call again: the first call counts."""
        if self._has_ended or self._socket is None:
            return
        self._has_ended = True
        if self._turn.sent or self._turn.frames or self._attempt is not None or close is not None:
            self._record(close)

    def _record(self, close: CloseMessage | None = None) -> None:
        """Record the exchange so far, and begin the next."""
        turn, self._turn = self._turn, TurnCapture(self._now_s())
        attempt = self._next_attempt(turn)
        wire = WireRecord(
            protocol=WEBSOCKET,
            status=SWITCHING_PROTOCOLS,
            headers=self._headers if not attempt.parsed.is_message else {},
            frames=turn.frames,
            close=None if close is None else (close.code, close.reason),
        )
        answer = HttpResponse(SWITCHING_PROTOCOLS, is_streamed=True)
        if turn.size_bytes > MAX_KEPT_BYTES:
            reason = f"an exchange of the session has more than {MAX_KEPT_BYTES:,} bytes"
            self._session.note(attempt, answer, CallOutcome("passed", unrecorded=reason))
            return
        self._write(attempt, wire, answer)

    def _write(self, attempt: CallAttempt, wire: WireRecord, answer: HttpResponse, *, failure: str = "") -> None:
        try:
            key = self._recorder.record_frames(attempt, wire, credentials=self._place.credentials)
        except RecordingWriteError as error:
            logger.error("%s: not recorded, and so not continued: %s", attempt.parsed.place, error)  # noqa: TRY400
            self._session.note(attempt, answer, CallOutcome("refused", unrecorded=error.reason))
            self._has_ended = True
            self._connection.transport.abort()
            return
        self._session.note(attempt, answer, CallOutcome("recorded", key, failure))

    def _next_attempt(self, turn: TurnCapture) -> CallAttempt:
        """Return the call of an exchange. Its fault, if planned, has changed nothing."""
        attempt, self._attempt = self._attempt, None
        if attempt is None:
            fields = turn_fields(path=self._handshake.place, after=self._after, sent=turn.sent)
            fields = orjson.loads(orjson.dumps(fields))
            fingerprint = turn_fingerprint(fields, self._ids, self._session.rules)
            attempt = self._session.start(self._request, with_sent(self._handshake, fields, fingerprint))
        self._after = attempt.parsed.request_hash
        return self._session.forgive(attempt)

    def _refuse(self, refusal: RefusedHandshakeError) -> None:
        """Record that the real API has refused the handshake, and refuse it."""
        headers = replayable_headers(refusal.headers)
        answer = HttpResponse(refusal.status, headers, ((0.0, refusal.body),))
        wire = WireRecord(protocol=WEBSOCKET, status=refusal.status, headers=headers, body=wire_text(refusal.body))
        attempt = self._next_attempt(self._turn)
        self._write(attempt, wire, answer, failure=f"status {refusal.status} from {self._place.address}")
        self._send_refusal(answer)

    def _answer_unreachable(self, error: Exception) -> None:
        failure = f"no answer from {self._place.address} ({type(error).__name__})"
        status = 504 if isinstance(error, TimeoutError) else 502
        self._answer_error(error_response(self._handshake.route.any_codec, status, failure), "passed", failure)

    def _answer_error(self, answer: HttpResponse, outcome: str, failure: str = "") -> None:
        attempt = self._next_attempt(self._turn)
        kind = CallOutcome("refused" if outcome == "refused" else "passed", failure=failure, unrecorded=failure)
        self._session.note(attempt, answer, kind)
        self._send_refusal(answer)

    def _send_refusal(self, answer: HttpResponse) -> None:
        self._has_ended = True
        self._connection.write(refusing_bytes(answer).content)
        self._connection.transport.close()

    def _now_s(self) -> float:
        return self._recorder.clock.monotonic_s()


MAX_BODY_BYTES = 1024 * 1024
READ_BYTES = 64 * 1024
_HANDSHAKE_HEADERS = frozenset(
    (b"sec-websocket-key", b"sec-websocket-version", b"sec-websocket-extensions", b"accept-encoding", b"origin")
)


class RefusedHandshakeError(Exception):
    """A handshake that the server answered with another status than 101."""

    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status, self.headers, self.body = status, headers, body
        super().__init__(f"status {status}")


class UpstreamSocket:
    """An open WebSocket at a server. `headers` are those of its answer, with lower-case names."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, headers: dict[str, str]) -> None:
        self.headers = headers
        self._reader, self._writer = reader, writer
        self._parser = FrameParser(expects_mask=False)

    async def messages(self) -> AsyncIterator[SocketMessage | CloseMessage]:
        """Yield the server's messages and its close. Pings are answered."""
        try:
            while data := await self._reader.read(READ_BYTES):
                for message in self._parser.feed(data):
                    if message.opcode == PING:
                        self._writer.write(encode_frame(PONG, message.data, is_masked=True))
                    elif message.opcode == CLOSE:
                        close = decode_close(message.data)
                        self._writer.write(encode_close(close, is_masked=True))
                        yield close
                        return
                    elif message.is_data:
                        yield message
        except FramingError as error:
            self._writer.write(encode_close(CloseMessage(error.code, error.reason), is_masked=True))
            yield CloseMessage(PROTOCOL_ERROR, "the real API sent an invalid frame")
            return
        except OSError:
            pass  # reset: for the client and the recording that is what an end without a close is, code 1006
        yield CloseMessage(ABNORMAL_CLOSURE)

    def send(self, message: SocketMessage) -> None:
        """Send a message of the client."""
        self._writer.write(encode_frame(message.opcode, message.data, is_masked=True))

    async def drain(self) -> None:
        """Wait until the server has read enough."""
        await self._writer.drain()

    async def close(self, close: CloseMessage) -> None:
        """Close the connection."""
        try:
            self._writer.write(encode_close(close, is_masked=True))
            self._writer.close()
            await self._writer.wait_closed()
        except OSError:
            return


async def connect(url: str, headers: RawHeaders, *, timeout_s: float) -> UpstreamSocket:
    """Open a WebSocket at an `http` or `https` URL, with the headers of a client.

    Raises:
        OSError: the server cannot be reached, or does not speak HTTP.
        TimeoutError: it does not answer in time.
        RefusedHandshakeError: it answers without opening a WebSocket.
    """
    parts = urlsplit(url)
    is_tls = parts.scheme == "https"
    async with asyncio.timeout(timeout_s):
        reader, writer = await asyncio.open_connection(
            parts.hostname, parts.port or (443 if is_tls else 80), ssl=ssl.create_default_context() if is_tls else None
        )
        try:
            return await _shake_hands(reader, writer, url, headers)
        except BaseException:
            writer.close()
            raise


async def _shake_hands(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, url: str, headers: RawHeaders
) -> UpstreamSocket:
    parts, key = urlsplit(url), new_key()
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    lines = [f"GET {target} HTTP/1.1".encode("latin-1"), b"host: " + parts.netloc.encode("latin-1")]
    lines += [b"%b: %b" % (name, value) for name, value in headers if name not in _HANDSHAKE_HEADERS]
    lines += [b"upgrade: websocket", b"connection: Upgrade", b"sec-websocket-version: 13"]
    writer.write(b"\r\n".join([*lines, b"sec-websocket-key: " + key.encode(), b"", b""]))
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        raise ConnectionError("the server did not answer the handshake") from None
    answer = _Answer(head)
    if answer.status != 101:
        await answer.read_body(reader)
        raise RefusedHandshakeError(answer.status, answer.headers, bytes(answer.body))
    if answer.headers.get("sec-websocket-accept") != accept_key(key):
        raise ConnectionError("the server answered the handshake of somebody else")
    return UpstreamSocket(reader, writer, answer.headers)


class _Answer:
    """The HTTP answer to a handshake, filled by its parser."""

    def __init__(self, head: bytes) -> None:
        self.headers: dict[str, str] = {}
        self.body = bytearray()
        self._is_complete = False
        self._parser = httptools.HttpResponseParser(self)
        self._feed(head)
        self.status = self._parser.get_status_code()

    async def read_body(self, reader: asyncio.StreamReader) -> None:
        """Read the body of a refusal."""
        while not self._is_complete and len(self.body) < MAX_BODY_BYTES and (data := await reader.read(READ_BYTES)):
            self._feed(data)

    def _feed(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._is_complete = True
        except httptools.HttpParserError:
            raise ConnectionError("the server does not speak HTTP") from None

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self._is_complete = True
