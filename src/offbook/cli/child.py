"""A command that is run as if we were not there: it gets our signals, and its end is ours."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from signal import SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGKILL, SIGQUIT, SIGTERM, SIGTSTP, Signals
from typing import NamedTuple

from offbook.cli.exit_codes import SIGNALLED
from offbook.cli.signal_pipe import SignalPipe, stop_here
from offbook.clock import SYSTEM_CLOCK

FORWARDED = (SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP)
FROM_KEYS = (SIGINT, SIGQUIT, SIGTSTP)
"""What a terminal sends to all its foreground processes at once when a key is pressed."""

GRACE_S = 5.0
"""How long a command that is told to end may take for that."""


class ChildEnd(NamedTuple):
    """How a command has ended: its exit code, 128 + N if signal N ended it. It `is_late` if it had to be ended."""

    code: int
    is_late: bool = False


def run_child(
    command: Sequence[str],
    environment: Mapping[str, str],
    *,
    time_limit_s: float | None = None,
    grace_s: float = GRACE_S,
) -> ChildEnd:
    """Run `command` on our own input and outputs until it ends.

    At its time limit it is told to, with all that it has started if it is in a group of its own; what has not ended
    `grace_s` later is killed.

    Signals that we get are passed on to it, each once. At a terminal it is in the process group that keys are for, and
    what they send is not passed on; elsewhere it has a group of its own, which signals to ours do not reach.

    Raises:
        OSError: it cannot be started.
    """
    limits = [] if time_limit_s is None else [(time_limit_s, SIGTERM), (time_limit_s + grace_s, SIGKILL)]
    with SignalPipe(SIGCHLD, *FORWARDED) as signals:
        child = _Child(command, environment, is_apart=not _is_in_foreground())
        is_late = child.wait(signals, limits)
    code = child.code
    return ChildEnd(SIGNALLED - code if code < 0 else code, is_late)


class _Child:
    """A command that runs; if it `is_apart`, in a process group of its own."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], *, is_apart: bool) -> None:
        self._is_apart = is_apart
        group = 0 if is_apart else None
        self._process = subprocess.Popen(command, env=environment, close_fds=False, process_group=group)  # noqa: S603 - it is what the user wants

    @property
    def code(self) -> int:
        code: int = self._process.returncode
        return code

    def wait(self, signals: SignalPipe, limits: Sequence[tuple[float, Signals]]) -> bool:
        """Wait for its end, sending it each signal once its time in seconds has passed; whether one was sent."""
        sent, started_s = 0, SYSTEM_CLOCK.monotonic_s()
        while self._process.poll() is None:
            passed_s = SYSTEM_CLOCK.monotonic_s() - started_s
            came = signals.within(limits[sent][0] - passed_s if sent < len(limits) else None)
            if not came:
                self._end(limits[sent][1])
                sent += 1
            for number in came:
                self._pass_on(number)
        return sent > 0

    def _end(self, number: Signals) -> None:
        """Let it have a signal, and if it is apart, what it has started."""
        if self._is_apart:
            os.killpg(self._process.pid, number)
        else:
            self._process.send_signal(number)

    def _pass_on(self, number: Signals) -> None:
        """Let it have a signal; where it stops by that, stop too, and go on with it."""
        if number == SIGCHLD:
            return
        if self._is_apart or not (number in FROM_KEYS and _is_in_foreground()):
            self._process.send_signal(number)
        if number == SIGTSTP:
            stop_here(number)
            self._process.send_signal(SIGCONT)


def _is_in_foreground() -> bool:
    """Whether a terminal sends its signals to us, and so to the processes that we start."""
    try:
        terminal = os.open(os.ctermid(), os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    finally:
        os.close(terminal)
