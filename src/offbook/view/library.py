"""Finds the runs of a folder, and keeps a summary of each while its files are unchanged."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterator, Sequence
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

from offbook.clock import SYSTEM_CLOCK, Clock
from offbook.errors import InputError
from offbook.recording.format.document import Document
from offbook.text import did_you_mean_file
from offbook.view.summary import ListedRun, pending_run, summarize, summarize_recording
from offbook.workflow.runs.resumable_run import CALLS, LOG, MANIFEST, is_locked

MAX_FILES = 20_000
"""The maximum number of files to look at. A folder with more is not a folder of runs."""

FIRST_S, SUMMARY_S = 0.08, 0.4
"""Seconds for reading summaries in the first call, and in each later one. Other files are pending until the next call.
The first is short, so that a page has rows at once; the latest files are read first.
"""

LARGE_BYTES = 1024 * 1024
"""Files above this size are read last."""

DATABASES = (".db", ".sqlite", ".sqlite3")
_SUFFIXES = (".json", *DATABASES)
_SIDE_FILES = {".json": (".journal",), **dict.fromkeys(DATABASES, ("-wal",))}
_SKIPPED = frozenset(("node_modules", "__pycache__", "site-packages"))
_SKIPPED_FILES = frozenset(("package.json", "package-lock.json", "tsconfig.json", "deno.json", "composer.json"))
"""Project files that are not runs."""
_OWN_FOLDER = ".offbook"
_ASIDE = (".next", ".fresh-")

Signature: TypeAlias = tuple[int, ...]
"""The modification times and sizes of the files of a run."""


class FoundRun(Struct, frozen=True, kw_only=True, dict=True):
    """A run that was found: a file, or the folder of a workflow run. `id` names it in URLs.

    The recording of a step is `part_of` its workflow run.
    """

    id: str
    path: Path
    shape: Literal["file", "folder"]
    signature: Signature
    part_of: str = ""

    @property
    def modified_s(self) -> float:
        return max(self.signature[::2], default=0) / 1e9

    @cached_property
    def size_bytes(self) -> int:
        return sum(self.signature[1::2])


def has_words(listed: ListedRun, run: FoundRun, words: Sequence[str]) -> bool:
    """Return whether all these lower-case words occur in a run's list entry or its files."""
    left = [word for word in words if word not in listed.searched]
    return not left or _holds(run, left)


def _holds(run: FoundRun, words: Sequence[str]) -> bool:
    paths = sorted(run.path.rglob("*")) if run.shape == "folder" else [run.path, *_beside(run.path)]
    try:
        text = b"\n".join(path.read_bytes() for path in paths if path.is_file()).lower()
    except OSError:
        return False
    return all(word.encode() in text for word in words)


def _beside(path: Path) -> list[Path]:
    return [path.with_name(path.name + suffix) for suffix in _SIDE_FILES.get(path.suffix, ())]


class RunLibrary:
    """The runs below some folders and in some files, which are never changed.

    Runs are found by listing: a client's name is never used as a path. Links that lead out of their folder are ignored.

    Raises:
        InputError: one of the places does not exist.
    """

    def __init__(self, places: Sequence[str | os.PathLike[str]], *, clock: Clock = SYSTEM_CLOCK) -> None:
        self.places = [Path(os.path.realpath(_checked(place))) for place in places]
        self._clock = clock
        self._summaries: dict[str, tuple[Signature, ListedRun]] = {}
        self._lock = threading.Lock()
        self._has_looked = False

    def find(self) -> list[FoundRun]:
        """Return the present runs, the latest first."""
        found: dict[str, FoundRun] = {}
        for number, place in enumerate(self.places):
            prefix = f"{number}/" if len(self.places) > 1 else ""
            for run in _runs_in(place, prefix):
                found[run.id] = run
                if len(found) >= MAX_FILES:
                    break
        return sorted(found.values(), key=lambda run: (-run.modified_s, run.id))

    def run(self, id: str) -> FoundRun:
        """Return the run with this id.

        Raises:
            InputError: there is no such run, or it was removed.
        """
        found = next((run for run in self.find() if run.id == id), None)
        if found is None:
            raise InputError(f"there is no run {id!r}", source="view", hint="it may have been removed or renamed")
        return found

    def listed(self, runs: Sequence[FoundRun]) -> list[ListedRun]:
        """Return the summaries of runs. Large files come last; slow ones are pending until a later call."""
        with self._lock:
            end_s = self._clock.monotonic_s() + (SUMMARY_S if self._has_looked else FIRST_S)
            self._has_looked = True
            found = {
                run.id: self._summary(run, end_s=end_s)
                for run in sorted(runs, key=lambda run: run.size_bytes // LARGE_BYTES)
            }
            self._summaries = {key: kept for key, kept in self._summaries.items() if key in found}
        return [found[run.id] for run in runs]

    def summary(self, run: FoundRun) -> ListedRun:
        """Return the summary of one run."""
        with self._lock:
            return self._summary(run, end_s=math.inf)

    def note(self, run: FoundRun, document: Document) -> None:
        """Keep the summary of a recording that was loaded for another reason."""
        summary = summarize_recording(document, pending_run(run.id, run.modified_s, run.size_bytes))
        with self._lock:
            self._summaries[run.id] = run.signature, summary

    def _summary(self, run: FoundRun, *, end_s: float) -> ListedRun:
        kept = self._summaries.get(run.id)
        if kept is not None and kept[0] == run.signature:
            return kept[1]
        if self._clock.monotonic_s() > end_s:
            return pending_run(run.id, run.modified_s, run.size_bytes)
        summary = summarize(run.path, id=run.id, modified_s=run.modified_s, size_bytes=run.size_bytes)
        self._summaries[run.id] = run.signature, summary
        return summary


def digest_runs(runs: Sequence[FoundRun], *more: str) -> str:
    """Return a short text that changes with any of the runs, or with `more`."""
    digest = sha256(repr(more).encode())
    for run in runs:
        digest.update(f"{run.id} {run.signature}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()[:24]


def _checked(place: str | os.PathLike[str]) -> str:
    text = os.fspath(place).removeprefix("sqlite:///")
    if "://" in text:
        hint = "name files and folders; copy a recording of another store: offbook recording copy FROM TO.json"
        raise InputError("only files can be viewed", source=text, hint=hint)
    if "\0" in text or not os.path.exists(text):  # noqa: PTH110 - any text
        hint = did_you_mean_file(text, "name a folder of recordings and reports, or a single file")
        raise InputError("there is no such file or folder", source=text, hint=hint)
    return text


def _runs_in(place: Path, prefix: str) -> Iterator[FoundRun]:
    if place.is_file():
        yield from _file(place, f"{prefix}{place.name}")
        return
    for folder, folders, files in os.walk(place):
        at = Path(folder)
        if MANIFEST in files and (CALLS in folders or LOG in files):
            folders.clear()
            run = prefix + (_relative(at, place) or at.name)
            yield from _folder(at, run)
            for file in sorted((at / CALLS).glob("*.json")):
                if _is_inside(file, place):
                    yield from _file(file, f"{run}/{CALLS}/{file.name}", part_of=run)
            continue
        folders[:] = sorted(name for name in folders if _is_searched(at / name))
        for name in sorted(files):
            if _may_be_run(name) and _is_inside(at / name, place):
                yield from _file(at / name, prefix + _relative(at / name, place))


def _may_be_run(name: str) -> bool:
    return name.endswith(_SUFFIXES) and name not in _SKIPPED_FILES and not any(mark in name for mark in _ASIDE)


def _is_searched(folder: Path) -> bool:
    name = folder.name
    is_environment = (folder / "pyvenv.cfg").exists()
    return (not name.startswith(".") or name == _OWN_FOLDER) and name not in _SKIPPED and not is_environment


def _is_inside(file: Path, place: Path) -> bool:
    return not file.is_symlink() or Path(os.path.realpath(file)).is_relative_to(place)


def _relative(path: Path, place: Path) -> str:
    relative = str(path.relative_to(place))
    return "" if relative == "." else relative


def _file(path: Path, id: str, *, part_of: str = "") -> Iterator[FoundRun]:
    sides = _SIDE_FILES.get(path.suffix, ())
    signature = _signature(path, *(path.with_name(path.name + side) for side in sides))
    if signature:
        yield FoundRun(id=id, path=path, shape="file", signature=signature, part_of=part_of)


def _folder(path: Path, id: str) -> Iterator[FoundRun]:
    signature = _signature(path / MANIFEST, path / LOG)
    if signature:
        lock = (0, -1) if is_locked(path) else ()  # a process that died has written nothing
        yield FoundRun(id=id, path=path, shape="folder", signature=(*signature, *lock))


def _signature(*paths: Path) -> Signature:
    """Return the times and sizes of the existing files, or nothing if the first is gone."""
    found: list[int] = []
    for place, path in enumerate(paths):
        try:
            status = path.stat()
        except OSError:
            if place == 0:
                return ()
            continue
        found += (status.st_mtime_ns, status.st_size)
    return tuple(found)
