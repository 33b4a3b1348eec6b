"""Client connections on top of uvicorn's: resets, size limits, and a fast path for responses that are due at once."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import re
import socket
import struct
import sys
import termios
from collections.abc import Callable
from itertools import chain
from typing import Any
from urllib.parse import unquote

import httptools
from msgspec import Struct
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from offbook.wire.backend import ACCEPTED_CALL, AcceptedCall
from offbook.wire.request import HttpRequest


class RequestLimits(Struct, frozen=True, kw_only=True):
    """The largest body, and all headers of a request together, in bytes."""

    body_bytes: int = 64 * 1024 * 1024
    header_bytes: int = 64 * 1024


REQUEST_LIMITS = RequestLimits()


TRANSPORT = "offbook.transport"
"""Where a scope has the transport of its connection."""

_logger = logging.getLogger("offbook.wire.http")  # what a client sends or leaves unread is not for our log
_logger.addHandler(logging.NullHandler())
_logger.propagate = False
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_FLUSH_S = 0.001
_UPGRADE = re.compile(rb"\r\nupgrade:", re.IGNORECASE)
_TOO_LARGE = b"the headers are too large"
_TOO_LARGE_RESPONSE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: text/plain; charset=utf-8\r\n"
    b"content-length: %d\r\nconnection: close\r\n\r\n%b" % (len(_TOO_LARGE), _TOO_LARGE)
)
STATUS_LINE.update({status: b"HTTP/1.1 %d \r\n" % status for status in range(600, 1000)})  # faults may have these


class ClientConnection(HttpToolsProtocol):
    """One connection. A wish to upgrade is overheard; headers that are too large are refused by a 431."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.logger, self.access_log = _logger, False
        self._header_bytes = self._unparsed_bytes = 0
        self._earlier: list[RequestResponseCycle] = []

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
        self.scope[TRANSPORT] = self.transport  # type: ignore[literal-required]

    def on_headers_complete(self) -> None:
        self._header_bytes = len(self.url) + sum(map(len, chain.from_iterable(self.headers)))
        if self._header_bytes > REQUEST_LIMITS.header_bytes:
            raise ValueError("the headers are too large")  # the parser makes an error of its own of it
        self.on_head()

    def on_head(self) -> None:
        """The head of a call has come: hand the call to the application."""
        earlier = self.cycle
        super().on_headers_complete()
        if earlier is not None and not earlier.response_complete:
            self._earlier = [*(cycle for cycle in self._earlier if not cycle.response_complete), earlier]

    def send_400_response(self, msg: str) -> None:
        if self._header_bytes > REQUEST_LIMITS.header_bytes:
            self._refuse()
        else:
            super().send_400_response(msg)

    def timeout_keep_alive_handler(self) -> None:
        """Keep the connection: a call that crosses its end would be made, and counted, twice."""

    @property
    def _is_in_head(self) -> bool:
        return self.scope is not None and "method" not in self.scope

    @property
    def is_in_body(self) -> bool:
        """Whether the head of a call has come, and not yet all of its body."""
        return self.cycle is not None and self.cycle.more_body and not self._is_in_head

    def _refuse(self) -> None:
        self.transport.write(_TOO_LARGE_RESPONSE)
        self.transport.close()


def _without_upgrade(data: bytes) -> bytes:
    """The bytes without a wish for another protocol, for which the parser would leave the body unread.

    Java's HTTP client wishes for HTTP/2 with its first call.
    """
    if b"pgrade:" not in data:
        return data
    head, end, rest = data.partition(b"\r\n\r\n")
    return _UPGRADE.sub(b"\r\nx-upgrade:", head) + end + rest


async def reset_connection(transport: asyncio.Transport) -> None:
    """End a connection by a reset, when all that was written so far has arrived: a reset drops what is under way."""
    connection: socket.socket | None = transport.get_extra_info("socket")
    while not transport.is_closing() and (transport.get_write_buffer_size() or _unsent_bytes(connection)):  # noqa: ASYNC110
        await asyncio.sleep(_FLUSH_S)  # nobody tells when
    if connection is not None and connection.fileno() >= 0:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    transport.abort()


def _unsent_bytes(connection: socket.socket | None) -> int:
    """How many bytes the system has taken, and the client's system has not; 0 where that cannot be known."""
    if connection is None or connection.fileno() < 0:
        return 0
    try:
        return int.from_bytes(fcntl.ioctl(connection, termios.TIOCOUTQ, b"\0\0\0\0"), sys.byteorder)
    except OSError:
        return 0


MAX_HELD_BYTES = 1024 * 1024


class DirectConnection(ClientConnection, asyncio.BufferedProtocol):
    """Holds a call until all of it has come, and has it begun. An answer that is due at once is sent there and then.

    All else is handed to the application: what was begun already, and calls that are no plain POST, are large, or
    come before an earlier one is answered.

    `buffer` is what connections of one loop read into, one after the other; a new one for each read would cost more
    than all that is done with what was read.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        loop: asyncio.AbstractEventLoop | None,
        *,
        begin: Callable[[HttpRequest], AcceptedCall | None],
        buffer: memoryview,
    ) -> None:
        super().__init__(config, server_state, {}, loop)
        self._begin, self._buffer = begin, buffer
        self._is_held = False
        self._pieces: list[bytes] = []
        self._held_bytes = 0

    @property
    def is_in_body(self) -> bool:
        return self._is_held or super().is_in_body

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.data_received(bytes(self._buffer[:nbytes]))

    def on_head(self) -> None:
        if self._may_be_held():
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
            begun = self._begin(self._call())
            data = None if begun is None or begun.answer is None else begun.answer.at_once
            if data is not None and not self.flow.write_paused:
                self._is_held = False
                self.transport.write(data)
                return
            self.scope[ACCEPTED_CALL] = begun  # type: ignore[literal-required]
            self._hand_over()
        super().on_message_complete()

    def _may_be_held(self) -> bool:
        is_idle = self.cycle is None or self.cycle.response_complete
        parser = self.parser
        is_plain = parser.get_method() == b"POST" and parser.get_http_version() == "1.1" and parser.should_keep_alive()
        return is_idle and is_plain and not self.expect_100_continue

    def _call(self) -> HttpRequest:
        url = httptools.parse_url(self.url)
        path = url.path.decode("ascii")
        return HttpRequest(
            "POST",
            unquote(path) if "%" in path else path,
            url.query.decode("latin-1") if url.query else "",
            {name.decode("latin-1"): value.decode("latin-1") for name, value in self.headers},
            self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces),
        )

    def _hand_over(self) -> None:
        """Leave the call to the application after all."""
        self._is_held = False
        super().on_head()
        if self._pieces:
            super().on_body(b"".join(self._pieces))
