"""This process's private folders for configs and keys. Those of killed processes are removed."""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

from offbook.system import lock_file, open_folder_lock

PREFIX = "offbook-private-"
_NAME = re.compile(rf"{PREFIX}[a-z0-9_]{{8}}")


# A process that is killed cannot remove its folders. It has a lock on each, which the kernel releases: a process that
# can lock a folder knows that it is no longer needed. The folder itself is locked, and not a file in it: a kill before
# such a file is made, or after it is removed, would leave a folder for good. Between making and locking a folder,
# another process can take it for a dead one's; then the next is made. Forked children also have the lock, so a folder
# stays as long as one of them runs.
class PrivateFolder(tempfile.TemporaryDirectory[str]):
    """A temporary folder that only this user can read, until `cleanup` or the end of the block.

    The first of a process also removes the folders of processes that were killed.
    """

    def __init__(self) -> None:
        remove_dead_folders()
        super().__init__(prefix=PREFIX)
        while (lock := _lock_folder(Path(self.name))) is None:
            super().cleanup()
            super().__init__(prefix=PREFIX)
        self._lock = lock

    def cleanup(self) -> None:
        super().cleanup()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _lock_folder(folder: Path) -> int | None:
    """Return the lock of a folder, or None if another process has it, or has removed the folder."""
    try:
        lock = open_folder_lock(folder)
    except FileNotFoundError:
        return None
    try:
        lock_file(lock, wait=False)
        if folder.exists():
            return lock
    except BlockingIOError:
        pass
    os.close(lock)
    return None


@cache
def remove_dead_folders() -> None:
    """Remove this user's private folders of processes that were killed. Never fails."""
    with suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            with suppress(OSError):
                if _NAME.fullmatch(entry.name) and _is_ours(entry.stat(follow_symlinks=False)):
                    _remove_if_dead(Path(entry.path))


def _is_ours(found: os.stat_result) -> bool:
    """Return whether this is a folder of this user, and of nobody else."""
    is_own = not hasattr(os, "geteuid") or found.st_uid == os.geteuid()
    return is_own and stat.S_ISDIR(found.st_mode) and not stat.S_IMODE(found.st_mode) & 0o077


def _remove_if_dead(folder: Path) -> None:
    if (lock := _lock_folder(folder)) is not None:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)
