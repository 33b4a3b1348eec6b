"""Running a workflow for a command so that it can be gone on with after a crash."""

from __future__ import annotations

from pathlib import Path

import msgspec
import typer
from msgspec.structs import replace

from offbook.cli.arguments import RUNS_DIR
from offbook.cli.kept_options import KeptOptions
from offbook.cli.run_options import RunOptions
from offbook.cli.workflow_run import folder_of, run_workflow
from offbook.errors import InputError
from offbook.workflow.kept_run import KeptRun
from offbook.workflow.result import RunStatus
from offbook.workflow.run_store import RunStore
from offbook.workflow.schema import WorkflowDefinition


def start_run(definition: WorkflowDefinition, flow: str, options: RunOptions, kept: KeptOptions, runs_dir: str) -> int:
    """Run a workflow from its file at `flow`, keep how far it comes in `runs_dir`, and give the exit code.

    Raises:
        InputError: as `run_workflow` does; a run that could not even begin is not kept.
    """
    store = RunStore(runs_dir)
    run = store.start(definition, flow, state=options.state, options=msgspec.to_builtins(kept))
    try:
        return run_kept(run, definition, options, runs_dir=runs_dir)
    except InputError:
        if not run.is_begun:
            store.discard(run.manifest.id)
        raise


def run_kept(run: KeptRun, definition: WorkflowDefinition, options: RunOptions, *, runs_dir: str) -> int:
    """Run a workflow, or the rest of it; say how to go on with it if it does not succeed."""
    options = replace(options, checkpoint=run.checkpoint, calls=run.calls)
    with run:
        status: RunStatus | None = None
        try:
            ending = run_workflow(definition, options, folder=folder_of(run.manifest.given_path))
            status = ending.status
        finally:
            if status is not None:
                run.end(status)
            if status != "succeeded" and run.is_begun:
                typer.echo(f"to go on with it: {resume_command(run.manifest.id, runs_dir)}", err=True)
    return ending.code


def resume_command(run_id: str, runs_dir: str) -> str:
    """The command that goes on with a run."""
    where = "" if Path(runs_dir) == Path(RUNS_DIR) else f" --runs-dir {runs_dir}"
    return f"offbook resume {run_id}{where}"
