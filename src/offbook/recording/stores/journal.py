"""The journal of a JSON recording: one line per call, safe for many processes and for a kill at any time."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from offbook.files import open_regular
from offbook.recording.stores.store import ForkGuarded
from offbook.system import lock_file, unlock_file

_APPEND = os.O_RDWR | os.O_APPEND | os.O_CREAT


class Journal(ForkGuarded):
    """An append-only file of lines, shared by any number of processes.

    A process that appends or folds holds the lock on the file. A fold removes the file; an appender that waited for the
    lock on a removed file opens the new one. The journal gets the permissions of the file `beside`. It is always a
    regular file, never a link.
    """

    def __init__(self, path: Path, *, beside: Path, read_only: bool = False) -> None:
        super().__init__()
        self.path, self._beside = path, beside
        self._flags, self._is_shared = (os.O_RDONLY, True) if read_only else (_APPEND, False)
        self._fd = -1
        self._end = -1

    def append(self, line: bytes) -> None:
        """Append one line, completely or not at all.

        Raises:
            OSError: the line could not be written; no part of it is in the file.
        """
        with self.locked():
            self.write_locked(line)

    @contextmanager
    def locked(self, *, wait: bool = True) -> Iterator[None]:
        """Hold the lock on the journal, which is created if missing unless opened read-only.

        Raises:
            BlockingIOError: another process has the lock, and `wait` is false.
        """
        with self.guard:
            self._lock(wait=wait)
            try:
                yield
            finally:
                unlock_file(self._fd)

    def _lock(self, *, wait: bool) -> None:
        # The process that had the lock before may have folded the journal and removed the file. A lock on a removed
        # file excludes nobody, and a line that is written to it is lost. So the file must still have a name when we
        # have its lock; if not, we lock the file that has the name now.
        while True:
            if self._fd < 0:
                mode = stat.S_IMODE(self._beside.stat().st_mode) | 0o600 if self._beside.exists() else 0o666
                self._fd = open_regular(self.path, self._flags, mode, follow=False)
                self._end = -1
            lock_file(self._fd, shared=self._is_shared, wait=wait)
            if os.fstat(self._fd).st_nlink:
                return
            self.close()

    def write_locked(self, line: bytes) -> None:
        """Append one line while the lock is held. Raises like `append`."""
        # A process that was killed while it wrote has left half a line. The next line starts on a line of its own then,
        # so that only the half one is dropped. If our own write fails, the file gets its old length again.
        size = os.fstat(self._fd).st_size
        torn = size and size != self._end and os.pread(self._fd, 1, size - 1) != b"\n"
        data = b"\n" + line + b"\n" if torn else line + b"\n"
        try:
            written = os.write(self._fd, data)
            while written < len(data):
                written += os.write(self._fd, data[written:])
        except OSError:
            os.ftruncate(self._fd, size)
            raise
        self._end = size + len(data)

    def read_locked(self) -> bytes:
        """Return the content of the journal. The lock must be held."""
        size = os.fstat(self._fd).st_size
        data = os.pread(self._fd, size, 0)
        while len(data) < size:
            more = os.pread(self._fd, size - len(data), len(data))
            if not more:
                break
            data += more
        return data

    def remove_locked(self) -> None:
        """Remove the journal, whose content is folded. The lock must be held."""
        self.path.unlink()

    def close(self) -> None:
        """Close the file. It is opened again when needed."""
        with self.guard:
            if self._fd >= 0:
                os.close(self._fd)
            self._fd = -1
