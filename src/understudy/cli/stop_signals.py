"""Waiting until a process is told to end."""

from __future__ import annotations

import signal
from signal import SIGHUP, SIGINT, SIGTERM, Signals
from threading import Event
from types import FrameType, TracebackType
from typing import Any, Self

ENDING = (SIGINT, SIGTERM, SIGHUP)


class StopSignals:
    """Takes Ctrl-C, SIGTERM and SIGHUP for a wish to end while the block lasts; those that are ignored stay so."""

    def __init__(self) -> None:
        self._came = Event()
        self._before: dict[Signals, Any] = {}

    def wait(self) -> None:
        """Wait until one of them has come."""
        self._came.wait()

    def __enter__(self) -> Self:
        for number in ENDING:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._came.set()
