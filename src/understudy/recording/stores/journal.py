"""The journal beside a JSON recording: one appended line a call, safe for many processes and for a kill at any time."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Journal:
    """An append-only file of lines, shared by any number of processes.

    Whoever appends or folds holds the lock on the file. A fold removes the file; an appender that
    waited for the lock on a removed file opens the new one.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._guard = threading.Lock()
        self._fd = -1
        self._pid = 0
        self._end = -1

    def append(self, line: bytes) -> None:
        """Write one line, whole or not at all.

        Raises:
            OSError: the line could not be written; nothing of it is left behind.
        """
        with self._guard, self.locked():
            self._write(line)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock on the journal that is at its path now, made if absent."""
        fd = self._lock()
        try:
            yield
        finally:
            fcntl.flock(fd, fcntl.LOCK_UN)

    def _lock(self) -> int:
        while True:
            if self._fd < 0 or self._pid != os.getpid():
                self._open()
            fcntl.flock(self._fd, fcntl.LOCK_EX)
            if os.fstat(self._fd).st_nlink:
                return self._fd
            self.close()

    def _open(self) -> None:
        self._fd = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        self._pid, self._end = os.getpid(), -1

    def _write(self, line: bytes) -> None:
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

    def write_locked(self, line: bytes) -> None:
        """Write one line while the lock is held."""
        self._write(line)

    def read_locked(self) -> bytes:
        """All that the journal holds, while the lock is held."""
        size = os.fstat(self._fd).st_size
        data = os.pread(self._fd, size, 0)
        while len(data) < size:
            more = os.pread(self._fd, size - len(data), len(data))
            if not more:
                break
            data += more
        return data

    def remove_locked(self) -> None:
        """Remove the journal, while the lock is held: what it held is folded."""
        self.path.unlink()

    def close(self) -> None:
        """Let go of the file. It is opened again when needed."""
        if self._fd >= 0 and self._pid == os.getpid():
            os.close(self._fd)
        self._fd = -1
