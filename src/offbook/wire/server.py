"""The server: the application on a socket, in a thread of its own."""

from __future__ import annotations

import asyncio
import errno
import socket
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import uvicorn
from uvicorn.server import ServerState

from offbook.errors import InputError
from offbook.wire.app import WireApp
from offbook.wire.direct_connection import DirectConnection

LOOPBACK = "127.0.0.1"
BACKLOG = 2048
MAX_PORT = 65_535
TURNS_TO_CONNECT = 5
"""In how many turns of its loop, at most, a server has made the connections that it accepted."""
READ_BYTES = 64 * 1024
_ANY_PORT = "port 0 takes any that is free"
_ANY_HOST = "name an address of this machine: 127.0.0.1, or 0.0.0.0 for all of them"


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens at the address; port 0 is any that is free.

    Raises:
        InputError: it cannot listen there.
    """
    if not 0 <= port <= MAX_PORT:
        raise InputError(f"cannot listen at {host}:{port}: ports are 0 to {MAX_PORT}", hint=_ANY_PORT)
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        hint = _ANY_PORT if error.errno in (errno.EADDRINUSE, errno.EACCES) else _ANY_HOST
        raise InputError(f"cannot listen at {host}:{port}: {error.strerror or error}", hint=hint) from None
    # connections inherit it; else the end of an answer waits until the client has confirmed its beginning
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


class ServerThread:
    """Runs the application on `listener` from `start` to `stop`, which ends what is under way.

    `on_stop` is awaited on the server's own loop when all connections are closed.
    """

    def __init__(
        self,
        app: WireApp,
        listener: socket.socket,
        *,
        on_stop: Callable[[], Awaitable[Any]] | None = None,
    ) -> None:
        self._app, self._listener, self._on_stop = app, listener, on_stop
        self._config = uvicorn.Config(
            app, lifespan="off", log_config=None, access_log=False, ws="none", proxy_headers=False
        )
        self._state = ServerState()
        self._buffer = memoryview(bytearray(READ_BYTES))
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended: asyncio.Event | None = None
        self._is_ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="offbook-wire", daemon=True)

    def start(self) -> None:
        self._config.load()
        self._thread.start()
        self._is_ready.wait()

    def stop(self) -> None:
        """End the server. Safe to call twice, and before it was started."""
        if self._thread.ident is None:
            self._listener.close()
            return
        if self._loop is not None and self._ended is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join()

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        loop = self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        server = await loop.create_server(self._connect, sock=self._listener, backlog=BACKLOG)
        self._is_ready.set()
        await self._ended.wait()
        loop.remove_reader(self._listener)  # what was accepted could not be connected any more behind close()
        await self._close_connections()
        server.close()
        if self._on_stop is not None:
            await self._on_stop()

    def _connect(self) -> DirectConnection:
        return DirectConnection(self._config, self._state, self._loop, begin=self._app.begin, buffer=self._buffer)

    async def _close_connections(self) -> None:
        for _ in range(TURNS_TO_CONNECT):
            await asyncio.sleep(0)
            for connection in list(self._state.connections):
                connection.transport.abort()
        tasks = list(self._state.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
