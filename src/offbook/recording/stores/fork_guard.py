"""Resources that child processes must not inherit: locked files and database connections."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from weakref import WeakValueDictionary


class ForkGuarded(ABC):
    """Holds a resource open. It is closed before every fork, and opened again when it is needed.

    `guard` is held while the resource is in use; a fork waits for that.
    """

    def __init__(self) -> None:
        self.guard = threading.RLock()
        _guarded[id(self)] = self

    @abstractmethod
    def close(self) -> None:
        """Close the resource. Safe to call twice."""


_guarded: WeakValueDictionary[int, ForkGuarded] = WeakValueDictionary()
_held_during_fork: list[ForkGuarded] = []
_forking = threading.RLock()


def _close_before_fork() -> None:
    _forking.acquire()
    _held_during_fork.extend(item for reference in _guarded.valuerefs() if (item := reference()) is not None)
    for item in _held_during_fork:
        item.guard.acquire()
        item.close()


def _release_after_fork() -> None:
    while _held_during_fork:
        _held_during_fork.pop().guard.release()
    _forking.release()


os.register_at_fork(before=_close_before_fork, after_in_parent=_release_after_fork, after_in_child=_release_after_fork)
