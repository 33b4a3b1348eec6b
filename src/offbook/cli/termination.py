"""Ending a run in order when the process is told to terminate."""

from __future__ import annotations

import signal
from threading import current_thread, main_thread
from types import FrameType, TracebackType
from typing import Self


class Termination:
    """Takes a SIGTERM for a Ctrl-C while the block lasts. `has_come` tells which of them it was."""

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
        signal.raise_signal(signal.SIGINT)
