"""A kept run at a glance."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from msgspec import Struct

from offbook.errors import RunError
from offbook.workflow.kept_run import LOG, MANIFEST, is_locked
from offbook.workflow.run_log import read_progress
from offbook.workflow.run_manifest import read_manifest

RunState = Literal["running", "interrupted", "failed", "succeeded", "unreadable"]


class RunSummary(Struct, frozen=True, kw_only=True):
    """How a run stands. `settled_steps` of `steps` need not be run any more; `problem` says why it cannot be read."""

    id: str
    workflow: str = ""
    path: str = ""
    status: RunState
    settled_steps: int = 0
    steps: int = 0
    cost_usd: float = 0.0
    started_at: str = ""
    problem: str = ""

    @property
    def can_be_resumed(self) -> bool:
        return self.status in ("interrupted", "failed")


def summary_of(folder: Path) -> RunSummary:
    """How the run in a folder stands."""
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
