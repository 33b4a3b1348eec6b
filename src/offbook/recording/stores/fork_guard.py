"""What no child process may inherit: files with their locks, connections to databases."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from weakref import WeakValueDictionary


class ForkGuarded(ABC):
    """Holds something open. It is let go of before every fork, and opened again when it is needed.

    `guard` is held while it is in use; a fork waits for that.
    """

    def __init__(self) -> None:
        self.guard = threading.RLock()
        _guarded[id(self)] = self

    @abstractmethod
    def close(self) -> None:
        """Let go. Safe to call twice."""


_guarded: WeakValueDictionary[int, ForkGuarded] = WeakValueDictionary()
_held: list[ForkGuarded] = []
_forking = threading.RLock()


def _let_go() -> None:
    _forking.acquire()
    _held.extend(item for reference in _guarded.valuerefs() if (item := reference()) is not None)
    for item in _held:
        item.guard.acquire()
        item.close()


def _go_on() -> None:
    while _held:
        _held.pop().guard.release()
    _forking.release()


os.register_at_fork(before=_let_go, after_in_parent=_go_on, after_in_child=_go_on)
