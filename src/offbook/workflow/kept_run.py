"""A run that is kept in a folder, in the hands of one process."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Self

from offbook.clock import SYSTEM_CLOCK, Clock
from offbook.errors import RunError
from offbook.workflow.file_checkpoint import FileCheckpoint
from offbook.workflow.run_calls import RunCalls
from offbook.workflow.run_log import Ending, RunLog
from offbook.workflow.run_manifest import RunManifest, read_manifest

MANIFEST, LOG, CALLS = "run.json", "steps.jsonl", "calls"


class KeptRun:
    """A run under way. Until it is closed no other process can take it up.

    `checkpoint` is for the engine; `calls` goes around the providers and tools. `lock` is the lock on
    the folder, as `locked` gives it.

    Raises:
        RunError: what is in the folder cannot be read.
    """

    def __init__(self, folder: Path, lock: int, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._lock, self._folder = lock, folder
        self._log = RunLog(folder / LOG, beside=folder / MANIFEST, clock=clock)
        self.manifest: RunManifest = read_manifest(folder / MANIFEST)
        self.calls = RunCalls(folder / CALLS, clock=clock)
        self._progress = self._log.begin()
        self.checkpoint = FileCheckpoint(self._log, self.calls, self._progress)

    @property
    def is_begun(self) -> bool:
        """Whether there is anything to go on from: a step that ended, or a call that was made."""
        return bool(self._progress.results) or any((self._folder / CALLS).iterdir())

    def end(self, status: Ending) -> None:
        """Note how the run ended. One that is closed without has been interrupted."""
        self._log.end(status)

    def close(self) -> None:
        """Let go of the run. Safe to call twice."""
        self._log.close()
        release(self._lock)
        self._lock = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def locked(folder: Path) -> int:
    """The lock on a run's folder, to be given back to `release`. It ends with the process, however that ends.

    Raises:
        RunError: another has it.
    """
    return _locked(folder, fcntl.LOCK_EX)


def release(lock: int) -> None:
    if lock >= 0:
        os.close(lock)


def is_locked(folder: Path) -> bool:
    """Whether a process has the run in its hands."""
    try:
        release(_locked(folder, fcntl.LOCK_SH))
    except RunError:
        return True
    return False


def _locked(folder: Path, kind: int) -> int:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        raise RunError("the run is under way in another process", source=folder.name) from None
    return fd
