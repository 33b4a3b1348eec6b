"""One stored run: its manifest, the lock of the process that runs it, and the checkpoint for the engine."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
from msgspec import Struct, field

from offbook import __version__
from offbook.clock import SYSTEM_CLOCK, Clock, timestamp
from offbook.decoding import decode
from offbook.errors import RunError
from offbook.files import read_regular
from offbook.messages import JsonObject
from offbook.recording.stores.journal import Journal
from offbook.schema_errors import check_keys
from offbook.system import lock_file, open_folder_lock
from offbook.workflow.engine.result import RunStatus, StepResult
from offbook.workflow.file.schema import WorkflowDefinition
from offbook.workflow.file.tree import included_files
from offbook.workflow.runs.calls import RunCalls


class _LogLine(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One line: the result of a step, a failed step that runs again, or the start or end of the run."""

    step: str | None = None
    result: StepResult | None = None
    again: str | None = None
    began: str | None = None
    ended: str | None = None
    status: RunStatus | None = None


_encoder = msgspec.json.Encoder()


class StoredProgress(Struct):
    """The progress of a run: the last result of each step, by place, and how the run ended, if it did."""

    results: dict[str, StepResult] = field(default_factory=dict)
    ending: RunStatus | None = None

    def apply(self, line: _LogLine) -> None:
        if line.step is not None and line.result is not None:
            self.results[line.step] = line.result
        if line.again is not None:
            self.results.pop(line.again, None)
        if line.began is not None or line.ended is not None:
            self.ending = line.status

    @property
    def settled(self) -> int:
        """The number of outermost steps that are done, or skipped for a reason other than a failed step."""
        own = [result.status for place, result in self.results.items() if place == result.id]
        return own.count("done") + (0 if "failed" in own else own.count("skipped"))

    @property
    def cost_usd(self) -> float:
        return sum(result.cost_usd for result in self.results.values())


class RunLog:
    """The log at `path`, to which lines are appended. It gets the permissions of the file `beside`."""

    def __init__(self, path: Path, *, beside: Path, clock: Clock = SYSTEM_CLOCK) -> None:
        self._path, self._journal, self._clock = path, Journal(path, beside=beside), clock

    def begin(self) -> StoredProgress:
        """Log the start of the run, or of its resumption, and return its progress. An incomplete last line is removed.

        Raises:
            RunError: a line of the log cannot be read.
        """
        progress = read_progress(self._path)
        if self._path.exists():
            whole = read_regular(self._path).rfind(b"\n") + 1
            os.truncate(self._path, whole)
        self._add(_LogLine(began=timestamp(self._clock)))
        return progress

    def add(self, place: str, result: StepResult) -> None:
        """Log the result of a step."""
        self._add(_LogLine(step=place, result=result))

    def add_again(self, place: str) -> None:
        """Log that a failed step runs again."""
        self._add(_LogLine(again=place))

    def end(self, status: RunStatus) -> None:
        """Log the end of the run."""
        self._add(_LogLine(ended=timestamp(self._clock), status=status))

    def close(self) -> None:
        """Close the file."""
        self._journal.close()

    def _add(self, line: _LogLine) -> None:
        try:
            self._journal.append(_encoder.encode(line))
        except OSError as error:
            raise RunError(error.strerror or str(error), source=str(self._path)) from None


def read_progress(path: Path) -> StoredProgress:
    """Read the progress of a run from its log; empty if there is no log. An incomplete last line is ignored.

    Raises:
        RunError: a line cannot be read.
    """
    progress = StoredProgress()
    try:
        lines = read_regular(path).split(b"\n")[:-1]
    except FileNotFoundError:
        return progress
    except OSError as error:
        raise RunError(error.strerror or str(error), source=str(path)) from None
    for number, line in enumerate(lines, 1):
        try:
            progress.apply(decode(line, _LogLine))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            hint = "remove the line to run the step again"
            raise RunError(str(error), source=str(path), place=f"line {number}", hint=hint) from None
    return progress


class RunManifest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The start of a run.

    `path` is the absolute path of the workflow's file; `given_path` is the path as the user gave it, in the folder
    `started_in`. `files` has the SHA-256 of the file and of every file that it includes, by absolute path. `steps`
    counts the outermost steps of the workflow. `options` is what the caller needs to resume the run.
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
        """Return what changed since the run started: files, and the version of offbook."""
        changed = [name for name, digest in self.files.items() if _digest(Path(name)) != digest]
        return changed if self.version == __version__ else [*changed, f"offbook, which was {self.version}"]


def read_manifest(path: Path) -> RunManifest:
    """Read the manifest in a file.

    Raises:
        RunError: the file cannot be read, or is not a manifest.
    """
    try:
        data = read_regular(path)
        check_keys(data)
        return decode(data, RunManifest)
    except OSError as error:
        raise RunError(error.strerror or str(error), source=str(path)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        hint = "resume it with the version of offbook that started it"
        raise RunError(f"not the manifest of a run: {error}", source=str(path), hint=hint) from None


def file_digests(definition: WorkflowDefinition, path: str | os.PathLike[str]) -> dict[str, str]:
    """Return the SHA-256 of a workflow's file and of all that it includes, by absolute path; empty if missing."""
    file = Path(path).resolve()
    files = dict.fromkeys([file, *included_files(definition, file.parent)])
    return {str(each): _digest(each) for each in files}


def _digest(file: Path) -> str:
    try:
        return sha256(read_regular(file)).hexdigest()
    except OSError:
        return ""


_HOLDS_STEPS = frozenset(("loop", "subworkflow"))


class FileCheckpoint:
    """Holds the results of a run so far, and logs those of further steps.

    Failed and skipped steps run again. So do loops and sub-workflows: their finished steps are found in turn, and write
    their results to the state again.
    """

    def __init__(self, log: RunLog, calls: RunCalls, progress: StoredProgress) -> None:
        self._log, self._calls, self._results = log, calls, progress.results

    def find(self, path: str) -> StepResult | None:
        """Return the result of a finished step. Otherwise the step starts now, in this task."""
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
    """A run that this process runs; until it is closed, no other process can resume it.

    `checkpoint` is for the engine; `calls` wraps the providers and tools. `lock` is the lock of `lock_folder`.

    Raises:
        RunError: a file in the folder cannot be read.
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
        """Whether there is something to resume: the result of a step, or a recorded call."""
        return bool(self._progress.results) or any((self._folder / CALLS).iterdir())

    def end(self, status: RunStatus) -> None:
        """Log how the run ended. A run that is closed without an end was interrupted."""
        self._log.end(status)

    def close(self) -> None:
        """Close the log and release the lock. Safe to call twice."""
        self._log.close()
        release_lock(self._lock)
        self._lock = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def lock_folder(folder: Path) -> int:
    """Lock a run's folder, until `release_lock` or the end of the process.

    Raises:
        RunError: another process has the lock.
    """
    return _flock(folder)


def release_lock(lock: int) -> None:
    if lock >= 0:
        os.close(lock)


def is_locked(folder: Path) -> bool:
    """Whether a process has locked the folder."""
    try:
        release_lock(_flock(folder, shared=True))
    except RunError:
        return True
    return False


def _flock(folder: Path, *, shared: bool = False) -> int:
    fd = open_folder_lock(folder)
    try:
        lock_file(fd, shared=shared, wait=False)
    except BlockingIOError:
        os.close(fd)
        raise RunError("another process is running this run", source=folder.name) from None
    return fd
