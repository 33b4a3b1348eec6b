"""The Unix socket at which the program of `exec` asks about its tools: messages and answers are lines of JSON.

HTTP takes several times as long as finding the answer. A program that cannot reach the socket, as in a container, asks
over HTTP (`control.py`).
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Coroutine
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from offbook.decoding import decode
from offbook.private_folder import PrivateFolder
from offbook.wire.server.listener import BACKLOG, STOP_S
from offbook.wire.server.wire_server import WireServer
from offbook.wire.tools import UNREADABLE, ToolAnswer, ToolMessage

logger = logging.getLogger("offbook.wire")

READ_BYTES = 64 * 1024
MAX_LINE_BYTES = 64 * 1024 * 1024


class ToolSocket:
    """Listens at `path` within a `with` block, in a folder that only this user can open.

    `path` is empty if such a socket is impossible. Programs ask about the session without a name.

    `server` runs within the block, and answers on its loop.
    """

    def __init__(self, server: WireServer) -> None:
        self._server = server
        self._buffer = memoryview(bytearray(READ_BYTES))
        self._connections: set[_Connection] = set()
        self._listening: asyncio.Task[asyncio.AbstractServer] | None = None
        self._is_closed = threading.Event()
        self.path = ""

    def __enter__(self) -> Self:
        self._listener, self._folder = socket.socket(socket.AF_UNIX), PrivateFolder()
        path = Path(self._folder.name, "socket")
        try:
            self._listener.bind(str(path))
            path.chmod(0o600)
            self._listener.listen(BACKLOG)
        except OSError as error:  # the path is too long, or the file system has no sockets
            logger.debug("no socket at %s: %s", path, error)
            self._listener.close()
            self._folder.cleanup()
            return self
        self.path = str(path)
        self._server.call_soon(self._listen)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.path:
            self._server.call_soon(self._close)
            self._is_closed.wait(STOP_S)
            self._listener.close()
            self._folder.cleanup()

    def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        self._listening = loop.create_task(loop.create_unix_server(self._connection, sock=self._listener))

    def _connection(self) -> _Connection:
        return _Connection(self._server, self._connections, self._buffer)

    def _close(self) -> None:
        if self._listening is not None and not self._listening.cancel():
            self._listening.result().close()
        for connection in list(self._connections):
            connection.abort()
        self._is_closed.set()


class _Connection(asyncio.BufferedProtocol):
    """Answers messages one at a time. Connections share a buffer, because a loop reads from one at a time."""

    def __init__(self, server: WireServer, connections: set[_Connection], buffer: memoryview) -> None:
        self._server, self._connections, self._buffer = server, connections, buffer
        self._begun = bytearray()
        self._waiting: set[asyncio.Task[None]] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self)

    def abort(self) -> None:
        for each in self._waiting:
            each.cancel()
        self._transport.abort()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._begun += self._buffer[:nbytes]
        *lines, self._begun = self._begun.split(b"\n")
        for line in lines:
            self._answer(line)
        if len(self._begun) > MAX_LINE_BYTES:
            self._transport.abort()

    def _answer(self, line: bytearray) -> None:
        tools = self._server.tools_of(self._server.session(""))
        try:
            message = decode(line, ToolMessage)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self._send(UNREADABLE)
            return
        if tools is None:
            self._transport.abort()
        elif not tools.may_wait:
            self._send(tools.answer(message))
        else:
            task = asyncio.get_running_loop().create_task(self._answer_later(tools.answer_in_order(message)))
            self._waiting.add(task)
            task.add_done_callback(self._waiting.discard)

    async def _answer_later(self, answer: Coroutine[Any, Any, ToolAnswer | None]) -> None:
        self._send(await answer)

    def _send(self, answer: ToolAnswer | None) -> None:
        if answer is None:
            self._transport.abort()
        else:
            self._transport.write(msgspec.json.encode(answer) + b"\n")
