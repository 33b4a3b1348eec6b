"""Signals as they come, one after the other, to whoever waits for them."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterator
from signal import SIGCHLD, Signals
from types import FrameType, TracebackType
from typing import Any, Self

READ_BYTES = 64


class SignalPipe:
    """Takes signals over while the block lasts, and gives their numbers to who iterates over it.

    None is lost, however soon it comes: a handler alone would not wake a process that is just about to wait. Signals
    that are ignored stay so, but for SIGCHLD.
    """

    def __init__(self, *numbers: Signals) -> None:
        self._numbers = numbers
        self._before: dict[Signals, Any] = {}

    def __iter__(self) -> Iterator[Signals]:
        while True:
            yield from self.within(None)

    def within(self, wait_s: float | None) -> list[Signals]:
        """The next signals, as soon as one has come; none if none comes in that time."""
        poll = select.poll()
        poll.register(self._reading, select.POLLIN)
        has_come = poll.poll(None if wait_s is None else max(wait_s, 0.0) * 1000.0)
        return [Signals(number) for number in os.read(self._reading, READ_BYTES)] if has_come else []

    def __enter__(self) -> Self:
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._writing, False)
        self._fd_before = signal.set_wakeup_fd(self._writing)
        for number in self._numbers:
            if number == SIGCHLD or signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, _note)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._fd_before)
        os.close(self._reading)
        os.close(self._writing)


def stop_here(number: Signals) -> None:
    """Do what the signal does by itself, and go on as before when told to continue."""
    handler = signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)
    signal.signal(number, handler)


def _note(number: int, frame: FrameType | None) -> None:
    """Do nothing: the number is in the pipe."""
