"""Runs each case in a forked process, which leaves nothing to the next one and can always be ended.

The child has only the forking thread. Everything it needs of the parent is loaded and unlocked: standard output and
error are replaced, stores close their resources before a fork, and Python renews its own locks (imports, logging) in a
child. So forking is safe while other threads run, as those of pytest-xdist do.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import random
import select
import signal
import struct
import sys
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import ceil, inf
from typing import ClassVar, NoReturn

from msgspec import Struct

from offbook.clock import VIRTUAL_EPOCH
from offbook.errors import InputError
from offbook.tools.child_process import kill_group
from offbook.virtual_time import TimeReferences, VirtualTime

_MARK = b"\0report\0"
_LENGTH = struct.Struct("<Q")
_exit_now, _now_s = os._exit, time.monotonic
GRACE_S = 2.0
"""The seconds after its deadline at which a process is killed."""
START_S = 1e6
"""The monotonic time at which a case starts: no program expects a just-started computer."""
POLL_S = 0.1
"""The seconds between checks for an ended process whose child holds its pipe open."""


class ProcessEnding(Struct, frozen=True):
    """The end of a case's process.

    `report` is its report, or empty. `exit_code` is -N if signal N ended it, and None if it was killed from here or is
    unknown. `dump` is the stack at its deadline, if it could not report. `was_late` if it was killed for that.
    """

    report: bytes = b""
    exit_code: int | None = None
    dump: str = ""
    was_late: bool = False


class CaseProcess:
    """The present process of a case: `current`, which is None in all other processes.

    Processes that the agent forks have a copy, which `is_copy` and reports nothing.
    """

    current: ClassVar[CaseProcess | None] = None

    def __init__(self, pipe: int, clock: VirtualTime, *, is_silent: bool = True) -> None:
        self.clock, self._is_silent = clock, is_silent
        self._pipe, self._reporting, self._pid = pipe, threading.Lock(), os.getpid()

    @property
    def is_copy(self) -> bool:
        """Whether this is another process, forked from the case's."""
        return os.getpid() != self._pid

    def report(self, data: bytes) -> NoReturn:
        """Send the report and end this process. Only the first report counts, and none of a copy."""
        if self.is_copy:
            _exit_now(1)
        self._reporting.acquire()  # a second reporter waits for the end of the process
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        if not self._is_silent:
            flush_output()
        left = memoryview(_MARK + _LENGTH.pack(len(data)) + data)
        while left:
            left = left[os.write(self._pipe, left) :]
        _exit_now(0)

    def call_at(self, limit_s: float, late: Callable[[], NoReturn]) -> None:
        """Call `late` after `limit_s` of real time, in the main thread. Native code that does not end is dumped."""
        signal.signal(signal.SIGALRM, lambda *_: late())
        faulthandler.register(signal.SIGALRM, file=self._pipe, all_threads=False, chain=True)
        signal.setitimer(signal.ITIMER_REAL, limit_s)

    def end_deadlines(self) -> None:
        """Restore the state before `call_at`: no alarm, and no deadline by the clock, which starts again."""
        self.clock.restart()
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        faulthandler.unregister(signal.SIGALRM)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


class ForkedProcess:
    """A forked process in its own process group, in which `work` runs in virtual time and returns the report.

    It is killed after `limit_s`, with all processes that it started in its group. Its output is discarded, unless
    `is_silent` is False. `ending` is set when it has ended.
    """

    def __init__(
        self,
        work: Callable[[], bytes],
        *,
        references: TimeReferences,
        limit_s: float,
        is_silent: bool = True,
    ) -> None:
        self._pipe, child_pipe = map(_beyond_standard_files, os.pipe())
        if not is_silent:
            flush_output()  # or both processes would write what is buffered now
        self._pid = fork_quietly()
        if self._pid == 0:
            _run_child(work, child_pipe, references=references, is_silent=is_silent)
        os.close(child_pipe)
        os.set_blocking(self._pipe, False)
        with suppress(PermissionError, ProcessLookupError):  # the child has done it, and perhaps ended
            os.setpgid(self._pid, self._pid)
        self._due_s = _now_s() + limit_s
        self._data = bytearray()
        self._is_open = True
        self._exit_code: int | None = None
        self.ending: ProcessEnding | None = None

    def poll(self) -> bool:
        """Read the process's data, and return whether it has ended. A late process is killed."""
        if self.ending is None:
            has_exited = self._has_exited()
            self._read()
            if has_exited or self._report() is not None:
                self._end(has_exited=has_exited)
            elif _now_s() >= self._due_s:
                self._end(has_exited=False, was_late=True)
        return self.ending is not None

    def kill(self) -> None:
        """Kill the process and its group, if it is running."""
        if self.ending is None:
            self._end(has_exited=False)

    def _end(self, *, has_exited: bool, was_late: bool = False) -> None:
        kill_group(self._pid)
        if not has_exited:
            with suppress(ChildProcessError):
                os.waitpid(self._pid, 0)
        os.close(self._pipe)
        dump = bytes(self._data).partition(_MARK)[0].decode("utf-8", "replace")
        self.ending = ProcessEnding(self._report() or b"", self._exit_code, dump, was_late)

    def _has_exited(self) -> bool:
        try:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
        except ChildProcessError:  # this process ignores SIGCHLD
            return True
        if pid:
            self._exit_code = os.waitstatus_to_exitcode(status)
        return bool(pid)

    def _read(self) -> None:
        while self._is_open:
            try:
                piece = os.read(self._pipe, 1 << 16)
            except BlockingIOError:
                return
            self._data += piece
            self._is_open = bool(piece)

    def _report(self) -> bytes | None:
        """Return the report, if it is complete."""
        _, mark, rest = bytes(self._data).partition(_MARK)
        if not mark or len(rest) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(rest)
        report = rest[_LENGTH.size :]
        return report if len(report) == length else None

    def wait_s(self) -> float:
        """Return the wait before the next `poll`, if no data arrives."""
        return min(max(self._due_s - _now_s(), 0.0), POLL_S if self._is_open else POLL_S / 100)

    @property
    def pipes(self) -> list[int]:
        """The pipes to wait for."""
        return [self._pipe] if self._is_open and self.ending is None else []


def wait_for_any(processes: Sequence[ForkedProcess], *, limit_s: float | None = None) -> bool:
    """Wait until one of the processes has ended, at most for `limit_s`, and return whether one has."""
    end_s = inf if limit_s is None else _now_s() + limit_s
    while not [each for each in processes if each.poll()]:
        left_s = end_s - _now_s()
        if left_s <= 0:
            return False
        pipes = [pipe for each in processes for pipe in each.pipes]
        _wait_for_input(pipes, min(left_s, *(each.wait_s() for each in processes)))
    return True


def _wait_for_input(pipes: Sequence[int], limit_s: float) -> None:
    """Wait until one of the pipes can be read. Their numbers may be high: this process may have many files open."""
    poll = select.poll()
    for pipe in pipes:
        poll.register(pipe, select.POLLIN)
    poll.poll(ceil(limit_s * 1000))


def _beyond_standard_files(file: int) -> int:
    """Return a file under a number above 2: lower ones are free if this process was started without them."""
    if file > 2:
        return file
    import fcntl  # noqa: PLC0415 - Windows has none

    moved = fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, 3)
    os.close(file)
    return moved


_forking = threading.Lock()
"""Held during a fork: hook and warning filters are process-wide, and each fork restores them."""


def fork_quietly() -> int:
    """Fork this process, without a warning about other threads.

    Python runs hooks around a fork, and only prints their errors. An error of a signal handler there, such as Ctrl-C's,
    is raised after the fork instead, and the child is killed. Blocking signals would not keep handlers out of the
    hooks: any other thread that takes the signal lets the handler run in the main thread.
    """
    lost = list[BaseException]()

    def keep(event: sys.UnraisableHookArgs) -> None:
        if isinstance(event.exc_value, BaseException) and not isinstance(event.exc_value, Exception):
            lost.append(event.exc_value)
        else:
            print_error(event)

    if not hasattr(os, "fork"):
        raise InputError(
            "cases run in forked processes, which Windows does not have", hint="run it in WSL or a container"
        )
    with _forking:
        print_error, sys.unraisablehook = sys.unraisablehook, keep
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # that there are other threads: see above
                pid = os.fork()
        finally:
            sys.unraisablehook = print_error
    if pid and lost:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise lost[0]
    return pid


def _run_child(work: Callable[[], bytes], pipe: int, *, references: TimeReferences, is_silent: bool) -> NoReturn:
    """Report the result of the work, in the forked process. None of the parent's handlers and hooks run here."""
    try:
        os.setpgid(0, 0)
        gc.freeze()  # what is garbage of the parent is not collected here, and its memory stays shared
        reset_signals()
        close_input()
        if is_silent:
            _silence()
        clock = VirtualTime(START_S, is_exact=True)
        references.follow(clock, epoch_s=VIRTUAL_EPOCH.timestamp())
        random.seed(0)
        CaseProcess.current = CaseProcess(pipe, clock, is_silent=is_silent)
        CaseProcess.current.report(work())
    finally:
        _exit_now(1)


def reset_signals() -> None:
    """Handle signals like a fresh interpreter. The handlers and the wakeup pipe of the parent are its own."""
    faulthandler.disable()
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def close_input() -> None:
    """Replace standard input by the null device."""
    _open_null_device(0)


def _silence() -> None:
    """Replace standard input, output and error by the null device, including substitutes."""
    _open_null_device(1, 2)
    sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: PTH123, SIM115 - it is open until the process ends
    sys.stdout = sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115


def _open_null_device(*numbers: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for number in numbers:
        os.dup2(null, number)
    if null > 2:
        os.close(null)


def flush_output() -> None:
    """Flush standard output and error."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # whatever a run has put in its place
            stream.flush()
