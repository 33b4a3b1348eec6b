"""Runs a workflow resumably: the stored options, the checkpoint, and the command that resumes it."""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from offbook.cli.options import RUNS_DIR
from offbook.cli.output.console import echo
from offbook.cli.runners.workflow import WorkflowOptions, folder_of, run_workflow
from offbook.errors import InputError
from offbook.faults import FaultPlan
from offbook.faults.plan import Chaos
from offbook.faults.site import PlannedFault
from offbook.pipeline import Live, Mode, Record
from offbook.recording.stores.locate import open_store
from offbook.recording.stores.redis.location import PASSWORD_VARIABLE
from offbook.recording.transaction import go_on_recording, recorded_by_failed_run
from offbook.session.recorder import RecordMode
from offbook.text import mask_password
from offbook.vendors import MockableProviderName
from offbook.workflow.engine.result import RunStatus
from offbook.workflow.file.schema import WorkflowDefinition
from offbook.workflow.runs.resumable_run import ResumableRun
from offbook.workflow.runs.store import RunStore


class ResumeOptions(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The options of `offbook run` that resume a stored run."""

    provider: MockableProviderName | None = None
    model: str | None = None
    record: str | None = None
    record_mode: RecordMode = "append"
    faults: tuple[PlannedFault, ...] = ()
    chaos: Chaos | None = None

    @property
    def mode(self) -> Mode:
        return Live() if self.record is None else Record(self.record, self.record_mode)

    @property
    def plan(self) -> FaultPlan:
        return FaultPlan(self.faults, chaos=self.chaos)


def resume_options(
    mode: Mode, faults: FaultPlan, *, provider: MockableProviderName | None, model: str | None
) -> ResumeOptions:
    """Return the options to store for a new run.

    Raises:
        InputError: they have a password, which must not be stored.
    """
    record = mode.path if isinstance(mode, Record) else None
    if record is not None and mask_password(record) != record:
        hint = f"leave it out, and set {PASSWORD_VARIABLE}"
        raise InputError("its password would be stored with the run", source=mask_password(record), hint=hint)
    return ResumeOptions(
        provider=provider,
        model=model,
        record=record,
        record_mode=_resumed_record_mode(mode) if isinstance(mode, Record) else "append",
        faults=faults.faults,
        chaos=faults.chaos,
    )


def _resumed_record_mode(mode: Record) -> RecordMode:
    """Return the mode that neither replaces nor refuses the run's earlier exchanges.

    A run that is to replace exchanges records into another file until it succeeds.
    """
    if mode.record == "new":
        return "new"
    if not open_store(mode.path).exists():
        return "append"
    return mode.record if mode.record == "once" or open_store(mode.path).load().size else "append"


def start_resumable(
    definition: WorkflowDefinition, flow: str, options: WorkflowOptions, stored: ResumeOptions, runs_dir: str
) -> int:
    """Run the workflow in the file `flow`, store its progress in `runs_dir`, and return the exit code.

    Raises:
        InputError: as in `run_workflow`; a run that could not begin is not stored.
    """
    store = RunStore(runs_dir)
    run = store.start(definition, flow, state=options.state, options=msgspec.to_builtins(stored))
    try:
        return run_resumable(run, definition, options, runs_dir=runs_dir)
    except InputError:
        if not run.has_started:
            store.discard(run.manifest.id)
        raise


def run_resumable(run: ResumableRun, definition: WorkflowDefinition, options: WorkflowOptions, *, runs_dir: str) -> int:
    """Run a workflow, or the rest of it, and print how to resume it if it fails."""
    options = replace(options, checkpoint=run.checkpoint, calls=run.calls)
    with run:
        status: RunStatus | None = None
        try:
            ending = run_workflow(definition, options, folder=folder_of(run.manifest.given_path))
            status = ending.status
        finally:
            if status is not None:
                run.end(status)
            if status != "succeeded" and run.has_started:
                echo(f"resume it with: {resume_command(run.manifest.id, runs_dir)}", err=True)
    return ending.code


def resume_run(run: ResumableRun, definition: WorkflowDefinition, options: WorkflowOptions, *, runs_dir: str) -> int:
    """Run the rest of a workflow. Exchanges recorded before count together with the new ones.

    After a kill they are lost, and the rest is added to the recording.

    Raises:
        InputError: as in `run_workflow`, or the earlier exchanges cannot be read.
    """
    mode = options.mode
    if not isinstance(mode, Record) or mode.record not in ("all", "fresh"):
        if isinstance(mode, Record):
            run.calls.add_missing_to(open_store(mode.path))
        return run_resumable(run, definition, options, runs_dir=runs_dir)
    recorded = recorded_by_failed_run(mode.path, since=run.manifest.started_at)
    if not recorded.size:
        options = replace(options, mode=Record(mode.path, "append"))
        return run_resumable(run, definition, options, runs_dir=runs_dir)
    with go_on_recording(mode.path, recorded, mode.record):
        return run_resumable(run, definition, options, runs_dir=runs_dir)


def resume_command(run_id: str, runs_dir: str) -> str:
    """Return the command that resumes a run."""
    where = "" if Path(runs_dir) == Path(RUNS_DIR) else f" --runs-dir {runs_dir}"
    return f"offbook resume {run_id}{where}"
