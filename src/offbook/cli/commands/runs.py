"""offbook runs, resume: lists, prunes and resumes the stored runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from offbook.cli.options import RUNS_DIR, AsJson, Metrics, Quiet, RunsDir, Spans, Trace
from offbook.text import format_usd, pluralize

if TYPE_CHECKING:
    from offbook.workflow.runs.store import RunStore, RunSummary

COLUMNS = ("run", "workflow", "status", "steps", "cost $", "started (UTC)", "resume with")


def runs(
    prune: Annotated[str | None, typer.Option(help="Remove runs that started longer ago: 30d, 12h or 2w.")] = None,
    keep: Annotated[int | None, typer.Option(min=0, help="Remove all but the latest so many runs.")] = None,
    runs_dir: RunsDir = RUNS_DIR,
    as_json: AsJson = False,
) -> None:
    """List the stored runs, or prune them.

    The latest run is last. Runs are removed only with --prune or --keep, and never while they are in progress.

    [bold]Examples[/bold]

      offbook runs

      offbook runs --prune 30d

      offbook runs --keep 20 --json
    """
    import msgspec

    from offbook.cli.output.console import echo, echo_json
    from offbook.workflow.runs.store import RunStore

    store = RunStore(runs_dir)
    removed = _prune(store, prune, keep)
    summaries = store.summaries()
    if as_json:
        echo_json(msgspec.json.encode({"runs": summaries, "removed": removed}))
        return
    if removed:
        echo(f"removed {pluralize(len(removed), 'run')}")
    if summaries:
        _print(summaries, runs_dir)
    else:
        echo(f"no runs in {runs_dir}")


def _prune(store: RunStore, age: str | None, keep: int | None) -> list[str]:
    from offbook.errors import InputError
    from offbook.recording.maintain.edit import parse_age

    try:
        older_than = None if age is None else parse_age(age)
    except InputError as error:
        raise InputError(error.reason, source="--prune", hint=error.hint) from None
    return store.prune(older_than=older_than, keep=keep)


def _print(summaries: list[RunSummary], runs_dir: str) -> None:
    from offbook.cli.output.console import print_table

    print_table(COLUMNS, [_cells(summary, runs_dir) for summary in summaries], numbers=(3, 4))


def _cells(summary: RunSummary, runs_dir: str) -> tuple[str, ...]:
    from offbook.cli.runners.resume import resume_command

    if summary.problem:
        return summary.id, "", summary.status, "", "", "", summary.problem.splitlines()[0]
    return (
        summary.id,
        summary.workflow,
        summary.status,
        f"{summary.settled_steps}/{summary.steps}",
        format_usd(summary.cost_usd),
        summary.started_at[:19].replace("T", " "),
        resume_command(summary.id, runs_dir) if summary.can_be_resumed else "",
    )


def resume(
    run_id: Annotated[str, typer.Argument(help="The id of a run, a unique part of it, or 'last'.")],
    force: Annotated[
        bool, typer.Option("--force", "-f", help="Resume although files have changed; completed steps stay.")
    ] = False,
    runs_dir: RunsDir = RUNS_DIR,
    trace: Trace = None,
    metrics: Metrics = None,
    spans: Spans = None,
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
    from offbook.cli.runners.resume import ResumeOptions, resume_run
    from offbook.cli.runners.workflow import EventOptions, RunOptions
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
                mode=stored.mode,
                state=manifest.state,
                faults=stored.plan,
                is_json=as_json,
                is_quiet=quiet,
                events=EventOptions(trace=trace, metrics=metrics, spans=spans),
            )
            raise typer.Exit(resume_run(run, definition, options, runs_dir=runs_dir))
