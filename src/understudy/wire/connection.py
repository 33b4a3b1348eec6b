"""A connection of a client: uvicorn's, which also lets an answer break off, and limits what it reads."""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from understudy.wire.joined_writes import JoinedWrites
from understudy.wire.limits import LIMITS

TRANSPORT = "understudy.transport"
"""Where a scope has the transport of its connection."""

_logger = logging.getLogger("understudy.wire.http")  # what a client sends or leaves unread is not for our log
_logger.addHandler(logging.NullHandler())
_logger.propagate = False
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_FLUSH_S = 0.001


class Connection(HttpToolsProtocol):
    """One connection."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.logger, self.access_log = _logger, False
        self._header_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._writes = JoinedWrites(transport, self.loop)
        super().connection_made(self._writes)

    def on_response_complete(self) -> None:
        self._writes.flush()
        super().on_response_complete()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._header_bytes = 0
        self.scope[TRANSPORT] = self.transport  # type: ignore[literal-required]

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def _count(self, size: int) -> None:
        self._header_bytes += size
        if self._header_bytes > LIMITS.header_bytes:
            raise ValueError("the headers are too large")


async def reset(transport: asyncio.Transport) -> None:
    """End a connection by a reset, behind all that was written so far."""
    while transport.get_write_buffer_size() and not transport.is_closing():  # noqa: ASYNC110 - nobody tells when
        await asyncio.sleep(_FLUSH_S)
    connection: socket.socket | None = transport.get_extra_info("socket")
    if connection is not None and connection.fileno() >= 0:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    transport.abort()
