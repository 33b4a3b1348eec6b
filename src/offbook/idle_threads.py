"""Judges which threads of this process work, and which wait for another one."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import Any, TypeAlias

STUCK_S = 5.0
"""How long a thread may stand at one instruction until it counts as idle: nothing here knows how it waits."""


class NewThreads:
    """The threads that were started since this was created, and the one that has created it."""

    def __init__(self) -> None:
        self._old = set(threading.enumerate()) - {threading.current_thread()}
        self._places: dict[int, tuple[FrameType, int, float]] = {}

    def others(self) -> list[int]:
        """Return the identifiers of these threads, without the thread that asks; 0 for one that is just starting."""
        if threading.active_count() == 1:
            return []
        idents = [each.ident or 0 for each in threading.enumerate() if each not in self._old]
        return [ident for ident in idents if ident != threading.get_ident()]

    def are_idle(self, idents: list[int], is_waiting: Callable[[int], bool | None], *, now_s: float) -> bool:
        """Return whether all these threads wait at this real time. `is_waiting` says it of those that it knows.

        A thread without a frame is starting, while the one that starts it waits for that.
        """
        frames = sys._current_frames()  # noqa: SLF001 - all frames of the same moment
        if not frames.keys() >= set(idents):
            return False
        self._places = {ident: place for ident, place in self._places.items() if ident in frames}
        verdicts = [(ident, is_waiting(ident)) for ident in idents]
        unknown = [ident for ident, waits in verdicts if waits is None and not is_idle(frames[ident], frames)]
        stuck = [self._is_stuck(ident, frames[ident], now_s) for ident in unknown]
        return all(stuck) and all(waits for _, waits in verdicts if waits is not None)

    def _is_stuck(self, ident: int, frame: FrameType, now_s: float) -> bool:
        last, instruction, since_s = self._places.get(ident, (None, 0, 0.0))
        if last is not frame or instruction != frame.f_lasti:
            self._places[ident] = (frame, frame.f_lasti, now_s)
            return False
        return now_s - since_s >= STUCK_S


def is_idle(frame: FrameType, frames: Mapping[int, FrameType]) -> bool:
    """Return whether a thread waits for another one, or for work. `frame` is its innermost frame.

    A thread that was woken but has not run yet still stands where it waited. So its place is not enough: what it waits
    for must not have happened.
    """
    waits = _WAITS.get(_place(frame))
    if waits is not None:
        return waits(frame.f_locals, frames)
    if frame.f_globals.get("__name__") != "selectors":
        return False
    return any(_FILE_WAITS[_place(each)](each.f_locals) for each in _outer(frame) if _place(each) in _FILE_WAITS)


_Locals: TypeAlias = Mapping[str, Any]


def _place(frame: FrameType) -> tuple[str, str]:
    return str(frame.f_globals.get("__name__")), frame.f_code.co_qualname


def _outer(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _is_not_notified(local: _Locals, _: Mapping[int, FrameType]) -> bool:
    """Return whether nobody has notified a condition: of an event, a queue, a future, a barrier, a semaphore."""
    waiter = local.get("waiter")
    return waiter is not None and waiter.locked() and waiter in local["self"]._waiters  # noqa: SLF001


def _runs_still(local: _Locals, frames: Mapping[int, FrameType]) -> bool:
    """Return whether a thread that is joined has not ended."""
    return local["self"].ident in frames


def _has_no_work(local: _Locals, _: Mapping[int, FrameType]) -> bool:
    """Return whether nothing is left to do for a thread of a pool."""
    return bool(local["work_queue"].empty())


_WAITS: dict[tuple[str, str], Callable[[_Locals, Mapping[int, FrameType]], bool]] = {
    ("threading", "Condition.wait"): _is_not_notified,
    ("threading", "Thread._wait_for_tstate_lock"): _runs_still,
    ("threading", "Thread.join"): _runs_still,
    ("concurrent.futures.thread", "_worker"): _has_no_work,
    ("socket", "socket.accept"): lambda *_: True,
}
"""Where threads wait for something of this process, and whether it has not come yet."""

_FILE_WAITS: dict[tuple[str, str], Callable[[_Locals], bool]] = {
    ("concurrent.futures.process", "_ExecutorManagerThread.wait_result_broken_or_wakeup"): (
        lambda local: not local["self"].pending_work_items
    ),
    ("socketserver", "BaseServer.serve_forever"): lambda _: True,
}
"""Who waits for files by a selector without anything in progress."""
