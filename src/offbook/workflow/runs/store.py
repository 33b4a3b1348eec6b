"""The folder of stored runs: start, resume, list and prune them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from offbook import __version__
from offbook.clock import SYSTEM_CLOCK, Clock, timestamp
from offbook.errors import RunError
from offbook.messages import JsonObject
from offbook.text import did_you_mean
from offbook.workflow.file.schema import WorkflowDefinition
from offbook.workflow.runs.calls import write_private
from offbook.workflow.runs.resumable_run import (
    CALLS,
    LOG,
    MANIFEST,
    ResumableRun,
    RunManifest,
    file_digests,
    is_locked,
    lock_folder,
    read_manifest,
    read_progress,
    release_lock,
)

StoredRunStatus = Literal["running", "interrupted", "failed", "succeeded", "unreadable"]


class RunSummary(Struct, frozen=True, kw_only=True):
    """The status of a stored run. `settled_steps` of `steps` will not run again; `problem` explains `unreadable`."""

    id: str
    workflow: str = ""
    path: str = ""
    status: StoredRunStatus
    settled_steps: int = 0
    steps: int = 0
    cost_usd: float = 0.0
    started_at: str = ""
    problem: str = ""

    @property
    def can_be_resumed(self) -> bool:
        return self.status in ("interrupted", "failed")


def summary_of(folder: Path) -> RunSummary:
    """Return the status of the run in a folder."""
    is_running = is_locked(folder)
    try:
        manifest, progress = read_manifest(folder / MANIFEST), read_progress(folder / LOG)
    except RunError as error:
        return RunSummary(id=folder.name, status="unreadable", problem=str(error))
    return RunSummary(
        id=folder.name,
        workflow=manifest.workflow,
        path=manifest.given_path,
        status="running" if is_running else progress.ending or "interrupted",
        settled_steps=progress.settled,
        steps=manifest.steps,
        cost_usd=progress.cost_usd,
        started_at=manifest.started_at,
    )


LATEST = "last"


class RunStore:
    """The runs in `folder`, which the first run creates. Only their owner can read them."""

    def __init__(self, folder: str | os.PathLike[str], *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._folder, self._clock = Path(folder), clock

    def start(
        self,
        definition: WorkflowDefinition,
        path: str | os.PathLike[str],
        *,
        state: Mapping[str, Any] | None = None,
        options: JsonObject | None = None,
    ) -> ResumableRun:
        """Store a new run of the workflow in the file at `path`. `state` and `options` are JSON.

        Raises:
            RunError: the folder cannot be written to.
        """
        try:
            folder, lock = self._new_folder()
            manifest = RunManifest(
                id=folder.name,
                workflow=definition.name,
                path=str(Path(path).resolve()),
                given_path=str(path),
                started_in=str(Path.cwd()),
                files=file_digests(definition, path),
                version=__version__,
                started_at=timestamp(self._clock),
                steps=len(definition.steps),
                state=dict(state or {}),
                options=options or {},
            )
            write_private(folder / MANIFEST, msgspec.json.format(msgspec.json.encode(manifest), indent=2))
        except OSError as error:
            hint = "choose a writable folder with --runs-dir, or run with --no-checkpoint"
            raise RunError(error.strerror or str(error), source=str(self._folder), hint=hint) from None
        return ResumableRun(folder, lock, clock=self._clock)

    def resume(self, name: str, *, force: bool = False) -> ResumableRun:
        """Open the run of that name, to resume it. Without `force`, its files must be unchanged.

        Raises:
            RunError: there is no such run, it is running, has succeeded, or its files have changed.
        """
        folder = self._folder / self.id_of(name)
        lock = lock_folder(folder)
        try:
            _check_links(folder)
            _check_unfinished(folder)
            if not force:
                _check_unchanged(folder)
            return ResumableRun(folder, lock, clock=self._clock)
        except BaseException:
            release_lock(lock)
            raise

    def id_of(self, name: str) -> str:
        """Return the id of the run that `name` stands for: the id, a unique part of it, or `last` for the latest run.

        Raises:
            RunError: no run matches, or several do.
        """
        ids = self.ids()
        if name in ids or (name == LATEST and ids):
            return name if name in ids else ids[-1]
        matching = [each for each in ids if name and name in each]
        if len(matching) == 1:
            return matching[0]
        if matching:
            hint = f"one of: {', '.join(matching[-10:])}"
            raise RunError(f"{name!r} matches several runs", source="RUN_ID", hint=hint)
        hint = did_you_mean(name, [*ids, LATEST] if ids else [], kind=f"runs in {self._folder}")
        raise RunError(f"there is no run {name!r}", source="RUN_ID", hint=hint)

    def ids(self) -> list[str]:
        """Return the ids of all runs, the latest last."""
        found = (path.parent for path in self._folder.glob(f"*/{MANIFEST}"))
        return sorted(folder.name for folder in found if not folder.is_symlink())  # a link is no run of ours

    def summaries(self) -> list[RunSummary]:
        """Return the status of each run, the latest last."""
        return [summary_of(self._folder / each) for each in self.ids()]

    def prune(self, *, older_than: timedelta | None = None, keep: int | None = None) -> list[str]:
        """Remove runs that started longer ago than `older_than`, and all but the latest `keep`; return their ids.

        Running runs are never removed.
        """
        before = "" if older_than is None else (self._clock.utc_now() - older_than).isoformat(timespec="microseconds")
        summaries = self.summaries()
        spare = [] if keep is None else summaries[: max(0, len(summaries) - keep)]
        old = [summary for summary in summaries if summary.started_at and summary.started_at < before]
        unwanted = {summary.id for summary in [*spare, *old] if summary.status != "running"}
        return [each for each in sorted(unwanted) if self.discard(each)]

    def discard(self, run_id: str) -> bool:
        """Remove a run, unless it is running; return whether it was removed."""
        folder = self._folder / run_id
        try:
            lock = lock_folder(folder)
        except RunError:
            return False
        try:
            shutil.rmtree(folder)
        finally:
            release_lock(lock)
        return True

    def _new_folder(self) -> tuple[Path, int]:
        """Create the folder of a run that starts now, and lock it."""
        self._folder.mkdir(parents=True, exist_ok=True)
        ignored = self._folder / ".gitignore"
        if not ignored.exists():
            ignored.write_text("*\n")
        started, number = self._clock.utc_now().strftime("%Y%m%d-%H%M%S"), 1
        while (folder := self._folder / f"{started}-{number:03d}").exists():
            number += 1
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:  # another process created it first
            return self._new_folder()
        (folder / CALLS).mkdir(mode=0o700)
        return folder, lock_folder(folder)


def _check_links(folder: Path) -> None:
    """Refuse a run whose files are links: resuming would read and write outside the run."""
    for place in (folder, folder / CALLS):
        for each in place.iterdir() if place.is_dir() else ():
            if each.is_symlink():
                hint = "copy the file that it leads to in its place, if the run is yours"
                raise RunError(f"{each.name} is a link", source=folder.name, hint=hint)


def _check_unfinished(folder: Path) -> None:
    if read_progress(folder / LOG).ending == "succeeded":
        raise RunError("the run has succeeded; there is nothing to resume", source=folder.name)


def _check_unchanged(folder: Path) -> None:
    changes = read_manifest(folder / MANIFEST).changes()
    if changes:
        hint = f"offbook resume {folder.name} --force resumes it anyway, and reuses the finished steps"
        raise RunError(f"changed since the run was started: {', '.join(changes)}", source=folder.name, hint=hint)
