"""The clock of an explored program: time passes when the whole program waits, in step with the server."""

from __future__ import annotations

import fcntl
import math
import os
import socket
import stat
import struct
import sys
import termios
import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from offbook.virtual_time import PAUSES_S, REAL, YIELD_S, VirtualTime, Wait
else:  # it is beside this file, under the name of the guest
    from .virtual_time import PAUSES_S, REAL, YIELD_S, VirtualTime, Wait

T = TypeVar("T")

MESSAGE = struct.Struct("<cd")
"""A message in either direction: its kind, and a moment."""
IDLE, LATE, NOW = b"i", b"l", b"t"
"""Nothing happens in the program before this moment; it has really waited until then; the time is this."""
READ_S, SPIN_S, SPIN_READS = 1e-7, 1e-5, 1000
"""The virtual time of reading the clock, its time after many reads without a wait, and that number: a loop that waits
by reading the clock must end.
"""
OTHERS_S = 0.05
"""Real seconds to wait for another thread, without a limit, before checking whether all threads wait."""
BRIEF_S = 0.005
"""The real seconds to wait for an answer before asking the server whether one will come."""
_SYN_SENT = 2
_PEER_CREDENTIALS = struct.Struct("3i")
_listen, _peek = socket.SO_ACCEPTCONN, os.WNOHANG | os.WEXITED | os.WNOWAIT


def _never() -> bool:
    return False


def _no_files() -> tuple[int, ...]:
    return ()


class SharedTime(VirtualTime):
    """Virtual time of this process, which passes only as far as the server lets it: see `wire/server/session_clock.py`.

    `link` is the socket to the server, and `address` its address for calls. Every way to wait in Python is a `wait`
    here, so a thread outside all of them works, or waits for something unknown. Then, and during a child process or a
    wait for a file that others may write to, waits take real time.
    """

    def __init__(self, link: Any, address: tuple[str, int], start_s: float = 0.0) -> None:
        super().__init__(start_s, is_exact=True)
        self._link, self._address = link, address
        self._is_asking, self._is_prompt = False, True
        self._read_s, self._reads = 0.0, 0

    def read_s(self) -> float:
        """Return the time, a little later at every call."""
        self._reads += 1
        self._read_s += READ_S if self._reads < SPIN_READS else SPIN_S
        return self.now_s + self._read_s

    def wait(
        self,
        seconds: float,
        *,
        pause: Callable[[float | None], T],
        is_woken: Callable[[], bool] = _never,
        files: Callable[[], Iterable[int]] = _no_files,
    ) -> T | None:
        """Wait until `pause` returns something, or until this time has passed. `files` are the awaited files."""
        found: T | None = pause(0.0)
        if found or seconds <= 0:
            return found
        self._reads = 0
        with Wait(self, self.now_s + seconds, pause=pause, is_woken=is_woken, files=files) as wait:
            ended: T | None = self._wait(wait, REAL["monotonic"]() + seconds)
            return ended

    def _wait(self, wait: Wait, real_due_s: float) -> Any:
        if self._is_prompt and wait.files is not _no_files:
            found = wait.pause(BRIEF_S)
            self._is_prompt = bool(found)
            if found:
                return found
        pauses_s = (OTHERS_S,) if wait.files is _no_files and math.isinf(wait.due_s) else PAUSES_S
        for pause_s in chain(pauses_s, repeat(pauses_s[-1])):
            if self._is_everything_idle():
                self._move(IDLE, min(each.due_s for each in list(Wait.current.values())))
                found = wait.pause(0.0)
            elif REAL["monotonic"]() >= real_due_s:
                self._move(LATE, wait.due_s)
                found = wait.pause(0.0)
            else:
                found = wait.pause(pause_s)
            if found or self.now_s >= wait.due_s:
                return found
        raise AssertionError("unreachable")

    def _move(self, kind: bytes, due_s: float) -> None:
        """Ask the server to let time pass, unless another thread is asking. The wait continues."""
        if self._is_asking:
            return
        self._is_asking = True
        try:
            before_s = self.now_s
            self._link.send(MESSAGE.pack(kind, due_s))
            answer = self._link.recv(MESSAGE.size)
            if len(answer) < MESSAGE.size:
                os._exit(1)  # the server has ended
            self.now_s = max(self.now_s, MESSAGE.unpack(answer)[1])
            self._is_prompt = self._is_prompt or self.now_s == before_s
        finally:
            self._is_asking = False

    def _is_everything_idle(self) -> bool:
        """Return whether nothing can happen in this program unless time passes or the server answers."""
        # All threads of Python must be in a `wait`, with nothing there that ends it. A thread that was just woken still
        # looks idle, and threads that are not of Python are in no `wait`: the kernel knows both. A child process, or a
        # file that another process may write to, can end a wait at any time: then time is real.
        if self._is_asking or not self._are_threads_waiting():
            return False
        tasks = os.listdir("/proc/self/task")
        if len(tasks) > 1:
            REAL["sleep"](YIELD_S)  # a thread that has what it waited for needs a moment to go on
            if _is_any_running(tasks) or not self._are_threads_waiting():
                return False
        return not has_children() and all(map(self._is_quiet, self._files()))

    def _are_threads_waiting(self) -> bool:
        waits = Wait.current.copy()
        if vars(threading)["_limbo"]:  # a thread is being started
            return False
        if not sys._current_frames().keys() <= waits.keys():
            return False
        return not any(each.is_woken() or each.due_s <= self.now_s for each in waits.values())

    @staticmethod
    def _files() -> Iterator[int]:
        return chain.from_iterable(each.files() for each in list(Wait.current.values()))

    def _is_quiet(self, file: int) -> bool:
        """Return whether only the server or a thread of this process can write to a file, and nothing is in transit."""
        try:
            mode = os.fstat(file).st_mode
            if not stat.S_ISSOCK(mode):
                return (stat.S_ISFIFO(mode) and _is_own_pipe(file)) or _is_event(file)
            return self._is_quiet_socket(file)
        except OSError:
            return False

    def _is_quiet_socket(self, file: int) -> bool:
        opened = socket.socket(fileno=file)
        try:
            if opened.family == socket.AF_UNIX:
                peer = opened.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER_CREDENTIALS.size)
                return bool(_PEER_CREDENTIALS.unpack(peer)[0] == os.getpid())
            if opened.getsockopt(socket.SOL_SOCKET, _listen):
                return True
            is_to_server: bool = opened.getpeername()[:2] == self._address
            return is_to_server and not _is_in_transit(opened)
        finally:
            opened.detach()


def _is_in_transit(opened: socket.socket) -> bool:
    """Return whether sent data has not arrived yet, or the connection is not open yet."""
    unsent = int.from_bytes(fcntl.ioctl(opened, termios.TIOCOUTQ, b"\0\0\0\0"), sys.byteorder)
    return bool(unsent) or opened.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == _SYN_SENT


def _is_own_pipe(file: int) -> bool:
    """Return whether this process has both ends of a pipe."""
    name = os.readlink(f"/proc/self/fd/{file}")
    return sum(_name(each) == name for each in os.listdir("/proc/self/fd")) > 1


def _name(number: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{number}")
    except OSError:
        return ""


def _is_event(file: int) -> bool:
    return _name(str(file)) == "anon_inode:[eventfd]"


def _is_any_running(tasks: list[str]) -> bool:
    """Return whether another thread, of Python or not, is running."""
    own = str(threading.get_native_id())
    return any(_state(task) in "RD" for task in tasks if task != own)


def _state(task: str) -> str:
    try:
        with open(f"/proc/self/task/{task}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0].decode()
    except (OSError, IndexError):  # it has just ended
        return "R"


def has_children() -> bool:
    """Return whether this process has started another that it has not waited for."""
    try:
        os.waitid(os.P_ALL, 0, _peek)
    except ChildProcessError:
        return False
    return True
