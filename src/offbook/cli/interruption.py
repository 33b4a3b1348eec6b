"""Ending at once when Ctrl-C is pressed, whatever is running."""

from __future__ import annotations

import signal
from threading import current_thread, main_thread
from types import FrameType, TracebackType
from typing import Never, Self


class Interruption:
    """Lets a Ctrl-C end what runs while the block lasts, also code that an event loop would wait for first."""

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
