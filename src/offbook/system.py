"""The differences between systems: file locks, forks, and flags of open files. Windows lacks fcntl and fork."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

_LOCKED_BYTE = 1 << 40
"""The byte that is locked where locks keep others from reading: far behind the end of any file of ours."""


def os_flag(name: str) -> int:
    """Return a flag of `os.open`; 0 where the system does not have it."""
    return int(getattr(os, name, 0))


def on_fork(*, before: Callable[[], Any], after: Callable[[], Any]) -> None:
    """Call `before` before every fork, and `after` in both processes after it. Does nothing where nothing forks."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=before, after_in_parent=after, after_in_child=after)


def lock_file(fd: int, *, shared: bool = False, wait: bool = True) -> None:
    """Lock an open file until `unlock_file`, or until it is closed. On Windows, a shared lock excludes others as well.

    Raises:
        BlockingIOError: another process has the lock, and `wait` is false.
    """
    if (fcntl := _module("fcntl")) is not None:
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        fcntl.flock(fd, kind if wait else kind | fcntl.LOCK_NB)
        return
    msvcrt = _module("msvcrt")
    while not _lock_byte(msvcrt, fd, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK):
        if not wait:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))


def unlock_file(fd: int) -> None:
    """Release the lock of a file."""
    if (fcntl := _module("fcntl")) is not None:
        fcntl.flock(fd, fcntl.LOCK_UN)
    else:
        msvcrt = _module("msvcrt")
        _lock_byte(msvcrt, fd, msvcrt.LK_UNLCK)


def open_folder_lock(folder: Path) -> int:
    """Open what stands for a folder in `lock_file`: the folder itself, on Windows a file in it."""
    if _module("fcntl") is not None:
        return os.open(folder, os.O_RDONLY | os_flag("O_DIRECTORY") | os_flag("O_CLOEXEC"))
    return os.open(folder / ".lock", os.O_RDWR | os.O_CREAT)


def _module(name: str) -> Any:
    """Return a module that some systems lack, or None."""
    if name not in sys.modules:
        try:
            __import__(name)
        except ImportError:
            return None
    return sys.modules[name]


def _lock_byte(msvcrt: Any, fd: int, mode: int) -> bool:
    """Lock or unlock the byte, and return whether that succeeded: waiting for a lock ends after ten seconds."""
    at = os.lseek(fd, 0, os.SEEK_CUR)
    os.lseek(fd, _LOCKED_BYTE, os.SEEK_SET)
    try:
        msvcrt.locking(fd, mode, 1)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EDEADLK):
            return False
        raise
    finally:
        os.lseek(fd, at, os.SEEK_SET)
    return True
