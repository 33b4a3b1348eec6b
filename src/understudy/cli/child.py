"""A command that is run as if we were not there: it gets our signals, and its end is ours."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from signal import SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, Signals
from types import FrameType, TracebackType
from typing import Any, Self

from understudy.cli.exit_codes import SIGNALLED

FORWARDED = (SIGINT, SIGTERM, SIGHUP, SIGQUIT)
FROM_KEYS = (SIGINT, SIGQUIT, SIGTSTP)
"""What a terminal sends to all its foreground processes at once when a key is pressed."""


def run_child(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run `command` on our own input and outputs until it ends; gives its exit code, 128 + N if signal N ended it.

    Signals that we get are passed on to it, but for those that a terminal has sent to both of us.

    Raises:
        OSError: it cannot be started.
    """
    with _SignalRelay() as relay:
        process = subprocess.Popen(command, env=environment, close_fds=False)  # noqa: S603 - it is what the user wants
        relay.lead_to(process)
        code = process.wait()
    return SIGNALLED - code if code < 0 else code


class _SignalRelay:
    """Passes signals on to a process while the block lasts; those that come before there is one, once there is."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._waiting: list[int] = []
        self._before: dict[Signals, Any] = {}

    def lead_to(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        while self._waiting:
            process.send_signal(self._waiting.pop(0))

    def __enter__(self) -> Self:
        for number in FORWARDED:
            self._handle(number, self._pass_on)
        self._handle(SIGTSTP, self._stop_too)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: Signals, handler: Callable[[int, FrameType | None], None]) -> None:
        """Take over a signal, unless it is ignored: then the process is to ignore it too."""
        if signal.getsignal(number) is not signal.SIG_IGN:
            self._before[number] = signal.signal(number, handler)

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        if self._process is None:
            self._waiting.append(number)
        elif not (number in FROM_KEYS and _is_in_foreground()):
            self._process.send_signal(number)

    def _stop_too(self, number: int, frame: FrameType | None) -> None:
        """Stop as the process does, and go on with it."""
        self._pass_on(number, frame)
        signal.signal(SIGTSTP, signal.SIG_DFL)
        signal.raise_signal(SIGTSTP)
        signal.signal(SIGTSTP, self._stop_too)
        self._pass_on(SIGCONT, frame)


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
