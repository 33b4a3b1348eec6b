"""One stored run: its manifest, the lock of the process that runs it, and the checkpoint for the engine."""

from __future__ import annotations

import fcntl
import os
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
from msgspec import Struct, field

from offbook.clock import SYSTEM_CLOCK, Clock
from offbook.errors import RunError
from offbook.messages import JsonObject
from offbook.version import __version__
from offbook.workflow.engine.result import StepResult
from offbook.workflow.file.schema import WorkflowDefinition
from offbook.workflow.file.tree import included_files
from offbook.workflow.runs.calls import RunCalls
from offbook.workflow.runs.log import Ending, RunLog, StoredProgress


class RunManifest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The beginning of a run.

    `path` is the workflow's file, absolute; `given_path` is how it was named, in the folder
    `started_in`. `files` has the SHA-256 of it and of every file that it includes, by absolute path.
    `steps` counts the steps of the workflow itself. `options` is what whoever runs it must know to go on.
    """

    id: str
    workflow: str
    path: str
    given_path: str
    started_in: str
    files: dict[str, str]
    version: str
    started_at: str
    steps: int
    state: JsonObject = field(default_factory=dict)
    options: JsonObject = field(default_factory=dict)

    def changes(self) -> list[str]:
        """What is no longer as it was when the run was started: files, and the version of offbook."""
        changed = [name for name, digest in self.files.items() if _digest(Path(name)) != digest]
        return changed if self.version == __version__ else [*changed, f"offbook, which was {self.version}"]


def read_manifest(path: Path) -> RunManifest:
    """The manifest in a file.

    Raises:
        RunError: it cannot be read, or is none.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=RunManifest)
    except OSError as error:
        raise RunError(error.strerror or str(error), source=str(path)) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        hint = "go on with it by the offbook that started it"
        raise RunError(f"this is no start of a run: {error}", source=str(path), hint=hint) from None


def file_digests(definition: WorkflowDefinition, path: str | os.PathLike[str]) -> dict[str, str]:
    """The SHA-256 of a workflow's file and of all that it includes, by absolute path; empty for a missing file."""
    file = Path(path).resolve()
    files = dict.fromkeys([file, *included_files(definition, file.parent)])
    return {str(each): _digest(each) for each in files}


def _digest(file: Path) -> str:
    try:
        return sha256(file.read_bytes()).hexdigest()
    except OSError:
        return ""


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
