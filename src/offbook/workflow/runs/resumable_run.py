"""One stored run, locked by this process, with the checkpoint that the engine writes to."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Self

from offbook.clock import SYSTEM_CLOCK, Clock
from offbook.errors import RunError
from offbook.workflow.engine.result import StepResult
from offbook.workflow.runs.calls import RunCalls
from offbook.workflow.runs.log import Ending, RunLog, StoredProgress
from offbook.workflow.runs.manifest import RunManifest, read_manifest

_HOLDS_STEPS = frozenset(("loop", "subworkflow"))


class FileCheckpoint:
    """Knows how far a run had come, and notes in its log what becomes of further steps.

    Steps that failed or were skipped are tried again. So are those that hold steps of their own: what
    is done of these is found in turn, and writes to the state what it wrote then.
    """

    def __init__(self, log: RunLog, calls: RunCalls, progress: StoredProgress) -> None:
        self._log, self._calls, self._results = log, calls, progress.results

    def find(self, path: str) -> StepResult | None:
        """The result of a step that is done. A step that is not found begins now, in this task."""
        result = self._results.get(path)
        if result is not None and result.status == "done" and result.type not in _HOLDS_STEPS:
            return result
        has_failed = result is not None and result.status == "failed"
        self._calls.begin(path, has_failed=has_failed)
        if has_failed:
            self._log.add_again(path)
        return None

    def save(self, path: str, result: StepResult) -> None:
        known = self._results.get(path)
        if known is None or known.status != result.status or result.status == "failed":
            self._log.add(path, result)
            self._results[path] = result
        self._calls.end(path)


MANIFEST, LOG, CALLS = "run.json", "steps.jsonl", "calls"


class ResumableRun:
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
    def has_started(self) -> bool:
        """Whether there is anything to go on from: a step that ended, or a call that was made."""
        return bool(self._progress.results) or any((self._folder / CALLS).iterdir())

    def end(self, status: Ending) -> None:
        """Note how the run ended. One that is closed without has been interrupted."""
        self._log.end(status)

    def close(self) -> None:
        """Let go of the run. Safe to call twice."""
        self._log.close()
        release_lock(self._lock)
        self._lock = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def lock_folder(folder: Path) -> int:
    """The lock on a run's folder, to be given back to `release`. It ends with the process, however that ends.

    Raises:
        RunError: another has it.
    """
    return _flock(folder, fcntl.LOCK_EX)


def release_lock(lock: int) -> None:
    if lock >= 0:
        os.close(lock)


def is_locked(folder: Path) -> bool:
    """Whether a process has the run in its hands."""
    try:
        release_lock(_flock(folder, fcntl.LOCK_SH))
    except RunError:
        return True
    return False


def _flock(folder: Path, kind: int) -> int:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        raise RunError("the run is under way in another process", source=folder.name) from None
    return fd
