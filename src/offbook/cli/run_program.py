"""Child processes and signals: runs a program that gets our signals, and ends a command in order."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from signal import SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGKILL, SIGQUIT, SIGTERM, SIGTSTP, Signals
from threading import Thread, current_thread, main_thread
from types import FrameType, TracebackType
from typing import Any, NamedTuple, Never, Self

from offbook.cli import SIGNALLED
from offbook.clock import SYSTEM_CLOCK
from offbook.tools.child_process import kill_group

READ_BYTES = 64


class SignalPipe:
    """Handles signals within the block, and yields their numbers.

    No early signal is lost: a handler alone would not wake a process that is about to wait. Ignored signals stay
    ignored, except SIGCHLD.
    """

    def __init__(self, *numbers: Signals) -> None:
        self._numbers = numbers
        self._before: dict[Signals, Any] = {}

    def __iter__(self) -> Iterator[Signals]:
        while True:
            yield from self.within(None)

    def within(self, wait_s: float | None) -> list[Signals]:
        """Return the next signals as soon as one arrives, or an empty list after `wait_s` seconds."""
        poll = select.poll()
        poll.register(self._reading, select.POLLIN)
        has_come = poll.poll(None if wait_s is None else max(wait_s, 0.0) * 1000.0)
        return [Signals(number) for number in os.read(self._reading, READ_BYTES)] if has_come else []

    def restore(self) -> None:
        """Restore the handlers before the end of the block, so that a second signal ends the process."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    def __enter__(self) -> Self:
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._writing, False)
        self._fd_before = signal.set_wakeup_fd(self._writing)
        for number in self._numbers:
            if number == SIGCHLD or signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, _ignore)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.restore()
        signal.set_wakeup_fd(self._fd_before)
        os.close(self._reading)
        os.close(self._writing)


def stop_here(number: Signals) -> None:
    """Take the signal's default action, and restore the handler when the process continues."""
    handler = signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)
    signal.signal(number, handler)


def _ignore(number: int, frame: FrameType | None) -> None:
    """Do nothing: the number is in the pipe."""


FORWARDED_SIGNALS = (SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP)
KEYBOARD_SIGNALS = (SIGINT, SIGQUIT, SIGTSTP)
"""The signals that a key sends to all foreground processes of a terminal."""

SAYING_S = 1.0
"""The time limit for writing a message."""

GRACE_S = 5.0
"""The time limit for a command to end after SIGTERM."""


class ChildExit(NamedTuple):
    """The exit code of a command, 128 + N if signal N ended it. It `is_late` if it was stopped at its time limit."""

    code: int
    is_late: bool = False


def run_child(
    command: Sequence[str],
    environment: Mapping[str, str],
    *,
    time_limit_s: float | None = None,
    grace_s: float = GRACE_S,
    stdout: int | None = None,
    folder: Path | None = None,
) -> ChildExit:
    """Run `command` with our stdin, stdout (or the descriptor `stdout`) and stderr until it ends, here or in `folder`.

    At its time limit it gets SIGTERM and, `grace_s` later, SIGKILL. So do the processes that it started, if it has its
    own process group.

    Signals are forwarded once. At a terminal it is in the foreground process group, and keyboard signals are not
    forwarded; elsewhere it has its own process group, which signals to ours do not reach.

    Raises:
        OSError: it cannot be started.
    """
    limits = [] if time_limit_s is None else [(time_limit_s, SIGTERM), (time_limit_s + grace_s, SIGKILL)]
    with SignalPipe(SIGCHLD, *FORWARDED_SIGNALS) as signals:
        child = _Child(command, environment, is_apart=not _is_in_foreground(), stdout=stdout, folder=folder)
        is_late = child.wait(signals, limits)
    code = child.code
    return ChildExit(SIGNALLED - code if code < 0 else code, is_late)


class _Child:
    """A running command; if it `is_apart`, in its own process group."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        is_apart: bool,
        stdout: int | None,
        folder: Path | None,
    ) -> None:
        self._is_apart, self._may_stop = is_apart, False
        self._process = subprocess.Popen(  # noqa: S603 - the command of the user
            command, cwd=folder, env=environment, close_fds=False, process_group=0 if is_apart else None, stdout=stdout
        )

    @property
    def code(self) -> int:
        code: int = self._process.returncode
        return code

    def wait(self, signals: SignalPipe, limits: Sequence[tuple[float, Signals]]) -> bool:
        """Wait for its end, sending each signal when its time in seconds has passed. Return whether one was sent."""
        sent, started_s = 0, SYSTEM_CLOCK.monotonic_s()
        while self._process.poll() is None:
            passed_s = SYSTEM_CLOCK.monotonic_s() - started_s
            came = signals.within(limits[sent][0] - passed_s if sent < len(limits) else None)
            if not came:
                self._end(limits[sent][1])
                sent += 1
            for number in came:
                self._forward(number)
        return sent > 0

    def _end(self, number: Signals) -> None:
        """Send a signal to the child or, if separate, to its whole process group."""
        if self._is_apart:
            kill_group(self._process.pid, number)
        else:
            self._process.send_signal(number)

    def _forward(self, number: Signals) -> None:
        """Forward a signal. When SIGTSTP has stopped the child, which SIGCHLD reports, stop and continue with it."""
        if number == SIGTSTP:
            self._may_stop = True
        if number != SIGCHLD and (self._is_apart or not (number in KEYBOARD_SIGNALS and _is_in_foreground())):
            self._process.send_signal(number)
        if self._may_stop and self._has_stopped():
            self._may_stop = False
            stop_here(SIGTSTP)
            self._process.send_signal(SIGCONT)

    def _has_stopped(self) -> bool:
        try:
            return os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WNOHANG) is not None
        except ChildProcessError:  # it has ended
            return False


def _is_in_foreground() -> bool:
    """Return whether a terminal sends signals of keys to us and the processes that we start."""
    try:
        terminal = os.open(os.ctermid(), os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    finally:
        os.close(terminal)


class Interruption:
    """Makes Ctrl-C raise KeyboardInterrupt at once within the block, also in code that an event loop would await."""

    def __enter__(self) -> Self:
        self._is_ours = current_thread() is main_thread() and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
        if self._is_ours:
            self._before = signal.signal(signal.SIGINT, self._interrupt)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._is_ours:
            signal.signal(signal.SIGINT, self._before)

    def _interrupt(self, number: int, frame: FrameType | None) -> Never:
        raise KeyboardInterrupt


class InterruptNotice:
    """Reports at the first Ctrl-C within the block what the run waits for, and then handles it as usual.

    `say` is called in a thread, because the interrupted code may be writing to the same stream.
    """

    def __init__(self, waits_for: Callable[[], str], say: Callable[[str], object]) -> None:
        self._waits_for, self._say = waits_for, say
        self._saying: Thread | None = None

    def __enter__(self) -> Self:
        self._before = signal.getsignal(signal.SIGINT)
        self._is_ours = current_thread() is main_thread() and callable(self._before)
        if self._is_ours:
            signal.signal(signal.SIGINT, self._interrupt)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._is_ours:
            signal.signal(signal.SIGINT, self._before)
        if self._saying is not None:
            self._saying.join(SAYING_S)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        what = self._waits_for()
        if what and self._saying is None:
            message = f"waiting for {what} to end; press Ctrl-C again to stop now"
            self._saying = Thread(target=self._say, args=(message,), daemon=True)
            self._saying.start()
        if callable(self._before):
            self._before(number, frame)


class Termination:
    """Handles SIGTERM like Ctrl-C within the block. `has_come` is whether it was SIGTERM."""

    has_come = False

    def __enter__(self) -> Self:
        if current_thread() is main_thread():
            self._before = signal.signal(signal.SIGTERM, self._interrupt)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if current_thread() is main_thread():
            signal.signal(signal.SIGTERM, self._before)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        self.has_come = True
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell starts commands in the background like that
            raise KeyboardInterrupt
        signal.raise_signal(signal.SIGINT)
