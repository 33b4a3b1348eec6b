"""This process's private folders for configs and keys. Those of killed processes are removed."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

from offbook.system import lock_file, os_flag

PREFIX = "offbook-"
LOCK = ".offbook-lock"
_FLAGS = os.O_RDWR | os_flag("O_NOFOLLOW") | os_flag("O_CLOEXEC") | os_flag("O_NONBLOCK")


# A process that is killed cannot remove its folders. It holds a lock on a file in each, which the kernel releases:
# a process that can lock that file knows that the folder is no longer needed. A folder without the file stays: it has
# just been made, or is not ours. Forked children also have the lock, so a folder stays as long as one of them runs.
class PrivateFolder(tempfile.TemporaryDirectory[str]):
    """A temporary folder that only this user can read, until `cleanup` or the end of the block.

    The first of a process also removes the folders of processes that were killed.
    """

    def __init__(self) -> None:
        remove_dead_folders()
        super().__init__(prefix=PREFIX)
        self._lock = os.open(Path(self.name, LOCK), _FLAGS | os.O_CREAT | os.O_EXCL, 0o600)
        lock_file(self._lock, wait=False)

    def cleanup(self) -> None:
        super().cleanup()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


@cache
def remove_dead_folders() -> None:
    """Remove this user's private folders of processes that were killed. Never fails."""
    with suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            with suppress(OSError):
                if entry.name.startswith(PREFIX) and entry.is_dir(follow_symlinks=False):
                    _remove_if_dead(Path(entry.path))


def _remove_if_dead(folder: Path) -> None:
    if hasattr(os, "geteuid") and folder.lstat().st_uid != os.geteuid():
        return
    lock = os.open(folder / LOCK, _FLAGS)
    try:
        lock_file(lock, wait=False)
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)
