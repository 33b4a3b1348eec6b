"""A connection of a client: uvicorn's, which also lets an answer break off, and limits what it reads."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import re
import socket
import struct
import sys
import termios
from itertools import chain
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from offbook.wire.limits import LIMITS

TRANSPORT = "offbook.transport"
"""Where a scope has the transport of its connection."""

_logger = logging.getLogger("offbook.wire.http")  # what a client sends or leaves unread is not for our log
_logger.addHandler(logging.NullHandler())
_logger.propagate = False
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_FLUSH_S = 0.001
_UPGRADE = re.compile(rb"\r\nupgrade:", re.IGNORECASE)
_TOO_LARGE = b"the headers are too large"
_REFUSAL = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: text/plain; charset=utf-8\r\n"
    b"content-length: %d\r\nconnection: close\r\n\r\n%b" % (len(_TOO_LARGE), _TOO_LARGE)
)
STATUS_LINE.update({status: b"HTTP/1.1 %d \r\n" % status for status in range(600, 1000)})  # faults may have these


class Connection(HttpToolsProtocol):
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
            if self._unparsed_bytes > LIMITS.header_bytes and not self.transport.is_closing():
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
        if self._header_bytes > LIMITS.header_bytes:
            raise ValueError("the headers are too large")  # the parser makes an error of its own of it
        self.on_head()

    def on_head(self) -> None:
        """The head of a call has come: hand the call to the application."""
        earlier = self.cycle
        super().on_headers_complete()
        if earlier is not None and not earlier.response_complete:
            self._earlier = [*(cycle for cycle in self._earlier if not cycle.response_complete), earlier]

    def send_400_response(self, msg: str) -> None:
        if self._header_bytes > LIMITS.header_bytes:
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
        self.transport.write(_REFUSAL)
        self.transport.close()


def _without_upgrade(data: bytes) -> bytes:
    """The bytes without a wish for another protocol, for which the parser would leave the body unread.

    Java's HTTP client wishes for HTTP/2 with its first call.
    """
    if b"pgrade:" not in data:
        return data
    head, end, rest = data.partition(b"\r\n\r\n")
    return _UPGRADE.sub(b"\r\nx-upgrade:", head) + end + rest


async def reset(transport: asyncio.Transport) -> None:
    """End a connection by a reset, when all that was written so far has arrived: a reset drops what is under way."""
    connection: socket.socket | None = transport.get_extra_info("socket")
    while not transport.is_closing() and (transport.get_write_buffer_size() or _bytes_under_way(connection)):  # noqa: ASYNC110
        await asyncio.sleep(_FLUSH_S)  # nobody tells when
    if connection is not None and connection.fileno() >= 0:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    transport.abort()


def _bytes_under_way(connection: socket.socket | None) -> int:
    """How many bytes the system has taken, and the client's system has not; 0 where that cannot be known."""
    if connection is None or connection.fileno() < 0:
        return 0
    try:
        return int.from_bytes(fcntl.ioctl(connection, termios.TIOCOUTQ, b"\0\0\0\0"), sys.byteorder)
    except OSError:
        return 0
