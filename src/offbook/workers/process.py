"""Processes that handle jobs until they are closed.

A worker is a fork of this process with everything loaded here, or runs a module that loads what it needs. It shares
only a socket with this process, with jobs and results as frames of bytes. The end of the socket ends the worker:
none outlives this process.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import sys
import traceback
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import NoReturn, Protocol, TypeAlias

from offbook.clock import run, running_loop
from offbook.errors import OffbookError
from offbook.explore.isolation import close_input, flush_output, fork_quietly, reset_signals
from offbook.tools.child_process import kill_group
from offbook.virtual_time import VirtualTimeLoop

_HEAD = struct.Struct("<II")
READ_BYTES = 1 << 18
LEAVE_S = 5.0
"""The seconds for an idle worker to end by itself."""

Handle: TypeAlias = Callable[[bytes], Awaitable[bytes]]
"""Handles a job in a worker."""
Serve: TypeAlias = Callable[[socket.socket], Awaitable[None]]
"""Handles all jobs from a socket; see `serve_jobs`."""


class WorkerPool(Protocol):
    """Workers that handle jobs, as bytes. `name` describes a job in errors."""

    workers: int

    async def run(self, job: bytes, *, name: str) -> bytes:
        """Handle a job in one of the workers. A worker that ends is replaced.

        Raises:
            WorkerEndedError: the worker ended before it had a result.
        """
        ...


class WorkerEndedError(OffbookError):
    """A worker ended before it had a result, for example because it was killed."""


class FrameReader:
    """Splits a socket's data into numbered frames."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        self._data += data
        while len(self._data) >= _HEAD.size:
            length, number = _HEAD.unpack_from(self._data)
            end = _HEAD.size + length
            if len(self._data) < end:
                return
            frame = bytes(self._data[_HEAD.size : end])
            del self._data[:end]
            yield number, frame


def send_frame(connection: socket.socket, number: int, data: bytes) -> None:
    """Send a job or a result, with its number."""
    connection.sendall(_HEAD.pack(len(data), number) + data)


def receive_frames(connection: socket.socket) -> Iterator[tuple[int, bytes]]:
    """Wait for frames until the connection ends, and yield them."""
    frames = FrameReader()
    while data := connection.recv(READ_BYTES):
        yield from frames.feed(data)


async def serve_jobs(connection: socket.socket, handle: Handle) -> None:
    """Handle a connection's jobs, several concurrently, until it ends."""
    loop, frames, tasks = asyncio.get_running_loop(), FrameReader(), set[asyncio.Task[None]]()
    ended = loop.create_future()

    async def answer(number: int, job: bytes) -> None:
        send_frame(connection, number, await handle(job))

    def receive() -> None:
        data = b""
        with suppress(ConnectionError):
            data = connection.recv(READ_BYTES, socket.MSG_DONTWAIT)
        if not data and not ended.done():
            ended.set_result(None)
        for number, job in frames.feed(data):
            task = loop.create_task(answer(number, job))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    loop.add_reader(connection, receive)
    if isinstance(loop, VirtualTimeLoop):
        loop.settle()
    await ended
    loop.remove_reader(connection)


class WorkerProcess:
    """A process that serves jobs in its own group, seen from its parent."""

    def __init__(self, pid: int, connection: socket.socket) -> None:
        self._pid, self._connection = pid, connection
        self._frames = FrameReader()
        self.jobs: dict[int, tuple[str, asyncio.Future[bytes]]] = {}
        self._numbers = 0
        self._is_reaped = False
        self._code: int | None = None
        self._ended = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().add_reader(self._connection, self._receive)

    async def run(self, job: bytes, *, name: str) -> bytes:
        """Handle a job; see WorkerPool."""
        if self._ended.done():
            raise _ended_error(self._end(), [name])
        number, self._numbers = self._numbers, self._numbers + 1
        done = asyncio.get_running_loop().create_future()
        self.jobs[number] = name, done
        try:
            with suppress(ConnectionError):  # it has ended, which `_receive` finds
                send_frame(self._connection, number, job)
            result: bytes = await done
            return result
        finally:
            del self.jobs[number]

    async def leave(self) -> None:
        """Ask the worker to exit, and wait briefly."""
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_WR)
        with suppress(TimeoutError):
            async with asyncio.timeout(LEAVE_S):
                await asyncio.shield(self._ended)

    def kill(self) -> None:
        """End the worker, and the processes that it has started in its group."""
        loop = running_loop()
        if loop is not None:
            loop.remove_reader(self._connection)
        self._connection.close()
        self._end()

    def _receive(self) -> None:
        data = b""
        with suppress(ConnectionError):
            data = self._connection.recv(READ_BYTES, socket.MSG_DONTWAIT)
        for number, result in self._frames.feed(data):
            if number in self.jobs:
                self.jobs[number][1].set_result(result)
        if not data:
            asyncio.get_running_loop().remove_reader(self._connection)
            # Fail the jobs that have no result, because the worker has ended.
            waiting = [(name, done) for name, done in self.jobs.values() if not done.done()]
            if waiting:
                error = _ended_error(self._end(), [name for name, _ in waiting])
                for _, done in waiting:
                    done.set_exception(error)
            if not self._ended.done():
                self._ended.set_result(None)

    def _end(self) -> int | None:
        """Kill the rest of the process and its group, and return its exit code, if known."""
        if not self._is_reaped:
            self._is_reaped = True
            kill_group(self._pid)
            with suppress(ChildProcessError):  # this process ignores SIGCHLD
                self._code = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        return self._code


def fork_worker(serve: Serve, *, is_virtual: bool) -> WorkerProcess:
    """Start a worker as a fork of this process."""
    ours, theirs = socket.socketpair()
    flush_output()  # or both processes would write what is buffered now
    pid = fork_quietly()
    if pid == 0:
        ours.close()
        _run_child(serve, theirs, is_virtual=is_virtual)
    theirs.close()
    with suppress(PermissionError, ProcessLookupError):  # the child has done it, and perhaps ended
        os.setpgid(pid, pid)
    return WorkerProcess(pid, ours)


def spawn_worker(module: str) -> WorkerProcess:
    """Start a worker that runs a module, which gets the number of its socket. It has no standard input or output."""
    ours, theirs = socket.socketpair()
    theirs.set_inheritable(True)
    command = [sys.executable, "-m", module, str(theirs.fileno())]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    nothing = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1)]
    pid = os.posix_spawn(sys.executable, command, environment, file_actions=nothing, setpgroup=0)
    theirs.close()
    return WorkerProcess(pid, ours)


SHOWN_JOBS = 3


def _ended_error(code: int | None, names: list[str]) -> WorkerEndedError:
    how = "" if code is None else f" with signal {-code}" if code < 0 else f" with exit code {code}"
    more = f" and {len(names) - SHOWN_JOBS} more" if len(names) > SHOWN_JOBS else ""
    return WorkerEndedError(f"a worker process ended{how} during {', '.join(names[:SHOWN_JOBS])}{more}")


def _run_child(serve: Serve, connection: socket.socket, *, is_virtual: bool) -> NoReturn:
    """Serve until the connection ends. None of the parent's handlers and exit hooks run here."""
    code = 1
    try:
        os.setpgid(0, 0)  # Ctrl-C is for the parent, which ends this process
        reset_signals()
        close_input()
        run(_as_coroutine(serve, connection), virtual_time=is_virtual)
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:
        traceback.print_exc(file=sys.stderr)
    finally:
        flush_output()
        os._exit(code)


async def _as_coroutine(serve: Serve, connection: socket.socket) -> None:
    await serve(connection)


class ProcessPool:
    """Forked processes that handle jobs until the block ends. They are forked at its beginning, and replaced when they
    end.
    """

    def __init__(self, serve: Serve, workers: int, *, is_virtual: bool) -> None:
        self._serve, self.workers, self._is_virtual = serve, workers, is_virtual
        self._processes: list[WorkerProcess] = []

    async def __aenter__(self) -> ProcessPool:
        for _ in range(self.workers):
            self._processes.append(fork_worker(self._serve, is_virtual=self._is_virtual))
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                await asyncio.gather(*(each.leave() for each in self._processes))
        finally:
            for process in self._processes:
                process.kill()

    async def run(self, job: bytes, *, name: str) -> bytes:
        """Handle a job in the process that has the fewest; see WorkerPool."""
        process = min(self._processes, key=lambda each: len(each.jobs))
        try:
            return await process.run(job, name=name)
        except WorkerEndedError:
            if process in self._processes:
                process.kill()
                self._processes[self._processes.index(process)] = fork_worker(self._serve, is_virtual=self._is_virtual)
            raise
