"""The sockets of the server: accepts clients in a thread, up to a limit, and ends those that stall."""

from __future__ import annotations

import asyncio
import errno
import logging
import math
import socket
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from heapq import nsmallest
from typing import Any

from msgspec import Struct

from offbook.errors import InputError
from offbook.text import pluralize
from offbook.wire.server.connection import HttpConnection, OpenConnections, Phase

logger = logging.getLogger("offbook.wire")

BACKLOG = 2048
MAX_PORT = 65_535
ACCEPTS_A_TURN = 64
LOOP_TURNS_TO_CONNECT = 5
"""The number of loop turns in which a server creates accepted connections."""
SWEEP_S = 1.0
ACCEPT_PAUSE_S = 0.1
STOP_S = 5.0
"""The time limit for a server to stop, in seconds. A busier one is abandoned; its thread ends with the process."""
NOTICE_S = 10.0
MAX_CONNECTIONS = 10_000
_PORT_HINT = "port 0 is any free port"
_HOST_HINT = "name an address of this machine: 127.0.0.1, or 0.0.0.0 for all"
_TOO_MANY = b"too many connections; try again in a second"
_BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain; charset=utf-8\r\nretry-after: 1\r\n"
    b"content-length: %d\r\nconnection: close\r\n\r\n%b" % (len(_TOO_MANY), _TOO_MANY)
)


def bind_sockets(host: str, port: int, count: int) -> list[socket.socket]:
    """Return sockets that listen at one address, one for each process; port 0 is any free port.

    Raises:
        InputError: they cannot listen there, or another socket does.
    """
    with bind_socket(host, port) as alone:  # a socket that shares its port would not notice others that do
        port = alone.getsockname()[1]
    sockets: list[socket.socket] = []
    try:
        sockets.extend(bind_socket(host, port, is_shared=True) for _ in range(count))
    except InputError:
        for each in sockets:
            each.close()
        raise
    return sockets


def bind_socket(host: str, port: int, *, is_shared: bool = False) -> socket.socket:
    """Return a socket that listens at the address; port 0 is any free port. Others may share it if `is_shared`.

    Raises:
        InputError: it cannot listen there.
    """
    if not 0 <= port <= MAX_PORT:
        raise InputError(f"cannot listen at {host}:{port}: ports are 0 to {MAX_PORT}", hint=_PORT_HINT)
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family, backlog=BACKLOG, reuse_port=is_shared)
    except OSError as error:
        hint = _PORT_HINT if error.errno in (errno.EADDRINUSE, errno.EACCES) else _HOST_HINT
        reason = (error.strerror or str(error)).partition(" (while ")[0]  # Python adds the address
        raise InputError(f"cannot listen at {host}:{port}: {reason}", hint=hint) from None
    # inherited by connections; else the end of a response waits until the client has acknowledged its start
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


class ConnectionLimits(Struct, frozen=True, kw_only=True):
    """The maximum number of connections, and the longest waits for their clients, in seconds.

    `head_s` is for a whole head, from its first byte or the start of the connection. `idle_s` is between requests. A
    body may take `body_s` and a second for each `body_bytes_a_second`. `unread_s` is for a client that reads nothing.
    """

    connections: int
    head_s: float = 30.0
    idle_s: float = 300.0
    body_s: float = 30.0
    body_bytes_a_second: int = 500
    unread_s: float = 300.0

    def allowed_s(self, phase: Phase, received_bytes: int) -> float:
        """Return how long a connection may stay in a phase, given its received bytes."""
        match phase:
            case "new" | "head":
                return self.head_s
            case "body":
                return self.body_s + received_bytes / self.body_bytes_a_second
            case "idle":
                return self.idle_s
            case "response":
                return self.unread_s


def default_limits(*, files_a_connection: int = 1) -> ConnectionLimits:
    """Return limits that leave a quarter of this process's files to other uses."""
    try:
        import resource  # noqa: PLC0415 - Windows has none, and no such limit
    except ImportError:
        return ConnectionLimits(connections=MAX_CONNECTIONS)
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    files = MAX_CONNECTIONS * 2 if files == resource.RLIM_INFINITY else files
    return ConnectionLimits(connections=max(8, min(MAX_CONNECTIONS, files * 3 // 4 // files_a_connection)))


class _Wait:
    """A wait of a connection: its reason, its start, and the bytes received by then."""

    __slots__ = ("received_bytes", "since_s", "what")

    def __init__(self, what: tuple[Any, ...], since_s: float, received_bytes: int) -> None:
        self.what, self.since_s, self.received_bytes = what, since_s, received_bytes


class ConnectionWatch:
    """Finds the connections that wait too long for their clients.

    It compares their states every second, so requests that are answered at once cost nothing.
    """

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._waits: dict[HttpConnection, _Wait] = {}

    def overdue(self, connections: set[HttpConnection], now_s: float) -> list[HttpConnection]:
        """Check the connections, and return those that have waited too long."""
        self._waits = {connection: self._look(connection, now_s) for connection in connections}
        return [connection for connection, wait in self._waits.items() if self._is_overdue(connection, wait, now_s)]

    def longest_waiting(self, connections: set[HttpConnection], count: int) -> list[HttpConnection]:
        """Return connections without a request in work: those with half a head first, and of each the oldest."""
        waiting = [each for each in connections if each.phase in ("new", "head", "idle") and not each.is_closing]
        return nsmallest(count, waiting, key=lambda each: (each.phase == "idle", self._since_s(each)))

    def _since_s(self, connection: HttpConnection) -> float:
        wait = self._waits.get(connection)
        return math.inf if wait is None else wait.since_s

    def _look(self, connection: HttpConnection, now_s: float) -> _Wait:
        what = (connection.phase, connection.message_count, *connection.progress)
        wait = self._waits.get(connection)
        return wait if wait is not None and wait.what == what else _Wait(what, now_s, connection.received_bytes)

    def _is_overdue(self, connection: HttpConnection, wait: _Wait, now_s: float) -> bool:
        if not connection.waits_for_client:
            return False
        received_bytes = connection.received_bytes - wait.received_bytes
        return now_s - wait.since_s > self._limits.allowed_s(connection.phase, received_bytes)


class _Notices:
    """Logs frequent events once in ten seconds, with their number."""

    def __init__(self) -> None:
        self._last_s = -math.inf
        self._unsaid = 0

    def warn(self, now_s: float, message: str) -> None:
        if now_s - self._last_s < NOTICE_S:
            self._unsaid += 1
            return
        more = f"; and {pluralize(self._unsaid, 'time')} more since the last such line" if self._unsaid else ""
        logger.warning("%s%s", message, more)
        self._last_s, self._unsaid = now_s, 0


class Acceptor:
    """Accepts the clients of a socket on the running loop, and limits their number and their patience.

    At the limit, the connections that wait longest for their clients make room. If all are in use, a client gets a 503.
    If the system has no free descriptors, accepting pauses for a tenth of a second.
    """

    def __init__(
        self,
        listener: socket.socket,
        connect: Callable[[], HttpConnection],
        opened: OpenConnections,
        limits: ConnectionLimits,
    ) -> None:
        self._listener, self._connect, self._open, self._limits = listener, connect, opened, limits
        self._loop = asyncio.get_running_loop()
        self._watch = ConnectionWatch(limits)
        self._notices = _Notices()
        self._connecting: set[asyncio.Task[Any]] = set()
        self._sweeping: asyncio.TimerHandle | None = None
        self._resuming: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._listener.setblocking(False)
        self._loop.add_reader(self._listener, self._accept)

    def stop(self) -> None:
        """Stop accepting. Open connections stay."""
        self._loop.remove_reader(self._listener)
        for timer in (self._sweeping, self._resuming):
            if timer is not None:
                timer.cancel()

    def _accept(self) -> None:
        for _ in range(ACCEPTS_A_TURN):
            try:
                client, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._pause(error)
                return
            if len(self._open.connections) + len(self._connecting) < self._limits.connections:
                self._take(client)
            elif self._make_room():
                self._take(client)
                return  # those that made room are closed in the next turn of the loop
            else:
                self._turn_away(client)

    def _take(self, client: socket.socket) -> None:
        client.setblocking(False)
        task = self._loop.create_task(self._loop.connect_accepted_socket(self._connect, client))
        self._connecting.add(task)
        task.add_done_callback(self._on_connected)
        if self._sweeping is None:
            self._sweeping = self._loop.call_later(SWEEP_S, self._sweep)

    def _on_connected(self, task: asyncio.Task[Any]) -> None:
        self._connecting.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._notices.warn(self._loop.time(), f"a connection could not be opened: {error}")

    def _make_room(self) -> bool:
        """Close some of the connections that wait for their clients, and return whether there were any."""
        waiting = self._watch.longest_waiting(self._open.connections, max(1, self._limits.connections // 32))
        for connection in waiting:
            connection.transport.abort()
        if waiting:
            limit = pluralize(self._limits.connections, "connection")
            self._notices.warn(self._loop.time(), f"there are {limit}: closed those that waited longest")
        return bool(waiting)

    def _turn_away(self, client: socket.socket) -> None:
        limit = pluralize(self._limits.connections, "connection")
        self._notices.warn(self._loop.time(), f"there are {limit}, all in use: answered 503 to another")
        client.setblocking(False)
        with client, suppress(OSError):
            client.send(_BUSY)
            client.shutdown(socket.SHUT_WR)
            client.recv(4096)  # closing what is not read would reset the connection, and lose the answer

    def _pause(self, error: OSError) -> None:
        self._notices.warn(self._loop.time(), f"cannot accept a connection for now: {error.strerror or error}")
        self._make_room()
        self._loop.remove_reader(self._listener)
        self._resuming = self._loop.call_later(ACCEPT_PAUSE_S, self.start)

    def _sweep(self) -> None:
        for connection in self._watch.overdue(self._open.connections, self._loop.time()):
            connection.give_up()
        is_needed = self._open.connections or self._connecting
        self._sweeping = self._loop.call_later(SWEEP_S, self._sweep) if is_needed else None


class ServerThread:
    """Runs connections on `listener` from `start` to `stop`, which aborts the open ones.

    `connect` creates a connection that is registered in `opened`. `on_start` is awaited on the server's loop before the
    first connection, and `on_stop` when all connections are closed.
    """

    def __init__(
        self,
        listener: socket.socket,
        connect: Callable[[], HttpConnection],
        opened: OpenConnections,
        *,
        limits: ConnectionLimits | None = None,
        on_start: Callable[[], Awaitable[Any]] | None = None,
        on_stop: Callable[[], Awaitable[Any]] | None = None,
    ) -> None:
        self._listener, self._connect, self._open, self._on_stop = listener, connect, opened, on_stop
        self._limits, self._on_start = limits or default_limits(), on_start
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended: asyncio.Event | None = None
        self._is_ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="offbook-wire", daemon=True)

    def start(self) -> None:
        self._thread.start()
        self._is_ready.wait()

    def call_soon(self, work: Callable[[], object]) -> None:
        """Call `work` on the loop of the server, if it still runs."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(work)

    def stop(self) -> None:
        """Stop the server, within five seconds. Safe to call twice, and before `start`."""
        if self._thread.ident is None:
            self._listener.close()
            return
        if self._loop is not None and self._ended is not None and self._thread.is_alive():
            with suppress(RuntimeError):  # its loop has just been closed
                self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(STOP_S)
        if self._thread.is_alive():
            logger.error("the server is still busy after %g s, and is left behind", STOP_S)

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        if self._on_start is not None:
            await self._on_start()
        acceptor = Acceptor(self._listener, self._connect, self._open, self._limits)
        acceptor.start()
        self._is_ready.set()
        await self._ended.wait()
        acceptor.stop()  # a connection accepted after close() would not be created
        for _ in range(LOOP_TURNS_TO_CONNECT):
            await asyncio.sleep(0)
            for connection in list(self._open.connections):
                connection.transport.abort()
        tasks = list(self._open.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._listener.close()
        if self._on_stop is not None:
            await self._on_stop()
