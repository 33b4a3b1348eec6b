"""A client of a real API's WebSocket: connects, performs the handshake, and reads messages."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import httptools

from offbook.wire.proxy.upstream import RawHeaders
from offbook.wire.websocket.framing import (
    ABNORMAL_CLOSURE,
    CLOSE,
    PING,
    PONG,
    PROTOCOL_ERROR,
    CloseMessage,
    FrameParser,
    FramingError,
    Message,
    accept_key,
    decode_close,
    encode_close,
    encode_frame,
    new_key,
)

MAX_HEAD_BYTES = 64 * 1024
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

    async def messages(self) -> AsyncIterator[Message | CloseMessage]:
        """Yield what the server sends: messages, and at last how it closed the connection. Pings are answered."""
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
            pass
        yield CloseMessage(ABNORMAL_CLOSURE)

    def send(self, message: Message) -> None:
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
    """The HTTP answer to a handshake. It is called by its parser."""

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
