"""offbook resume: continues a run that was cut off or failed."""

from __future__ import annotations

from typing import Annotated

import typer

from offbook.cli.options import RUNS_DIR, AsJson, Quiet, RunsDir, Trace


def resume(
    run_id: Annotated[str, typer.Argument(help="The id of a run, a unique part of it, or 'last'.")],
    force: Annotated[
        bool, typer.Option("--force", "-f", help="Resume although files have changed; completed steps stay.")
    ] = False,
    runs_dir: RunsDir = RUNS_DIR,
    trace: Trace = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Resume a run that was interrupted or failed.

    Completed steps do not run again, and an interrupted step repeats no model or tool call that it had completed.
    Failed steps run again. The run continues in the folder where it was started, and exits as `offbook run` does.

    [bold]Examples[/bold]

      offbook resume last

      offbook resume 20261115-233012-001 --force
    """
    from contextlib import chdir
    from pathlib import Path

    import msgspec

    from offbook.cli.commands.run import override_config
    from offbook.cli.runners.resume import ResumeOptions, run_resumable
    from offbook.cli.runners.workflow import RunOptions
    from offbook.errors import RunError
    from offbook.workflow.file.load import load_workflow
    from offbook.workflow.runs.store import RunStore

    with RunStore(Path(runs_dir).resolve()).resume(run_id, force=force) as run:
        manifest = run.manifest
        if not Path(manifest.started_in).is_dir():
            raise RunError("the folder where it was started is gone", source=manifest.id, place=manifest.started_in)
        with chdir(manifest.started_in):
            stored = msgspec.convert(manifest.options, ResumeOptions)
            definition = override_config(load_workflow(manifest.given_path), stored.provider, stored.model)
            options = RunOptions(
                mode=stored.mode, state=manifest.state, faults=stored.plan, is_json=as_json, is_quiet=quiet, trace=trace
            )
            raise typer.Exit(run_resumable(run, definition, options, runs_dir=runs_dir))
