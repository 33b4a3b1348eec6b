"""A command that is run as if we were not there: it gets our signals, and its end is ours."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from signal import SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, Signals

from understudy.cli.exit_codes import SIGNALLED
from understudy.cli.signal_pipe import SignalPipe, stop_here

FORWARDED = (SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP)
FROM_KEYS = (SIGINT, SIGQUIT, SIGTSTP)
"""What a terminal sends to all its foreground processes at once when a key is pressed."""


def run_child(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run `command` on our own input and outputs until it ends; gives its exit code, 128 + N if signal N ended it.

    Signals that we get are passed on to it, but for those that a terminal has sent to both of us.

    Raises:
        OSError: it cannot be started.
    """
    with SignalPipe(SIGCHLD, *FORWARDED) as signals:
        process = subprocess.Popen(command, env=environment, close_fds=False)  # noqa: S603 - it is what the user wants
        for number in signals:
            if number != SIGCHLD:
                _pass_on(number, process)
            elif process.poll() is not None:
                break
    code: int = process.returncode
    return SIGNALLED - code if code < 0 else code


def _pass_on(number: Signals, process: subprocess.Popen[bytes]) -> None:
    """Let the process have a signal; where it stops by that, stop too, and go on with it."""
    if not (number in FROM_KEYS and _is_in_foreground()):
        process.send_signal(number)
    if number == SIGTSTP:
        stop_here(number)
        process.send_signal(SIGCONT)


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
