"""offbook runs: lists and prunes the stored runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from offbook.cli.options import RUNS_DIR, AsJson, RunsDir
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

    from offbook.workflow.runs.store import RunStore

    store = RunStore(runs_dir)
    removed = _prune(store, prune, keep)
    summaries = store.summaries()
    if as_json:
        typer.echo(msgspec.json.encode({"runs": summaries, "removed": removed}))
        return
    if removed:
        typer.echo(f"removed {pluralize(len(removed), 'run')}")
    if summaries:
        _print(summaries, runs_dir)
    else:
        typer.echo(f"no runs in {runs_dir}")


def _prune(store: RunStore, age: str | None, keep: int | None) -> list[str]:
    from offbook.errors import InputError
    from offbook.recording.maintain.edit import parse_age

    try:
        older_than = None if age is None else parse_age(age)
    except InputError as error:
        raise InputError(error.reason, source="--prune", hint=error.hint) from None
    return store.prune(older_than=older_than, keep=keep)


def _print(summaries: list[RunSummary], runs_dir: str) -> None:
    from rich.table import Table

    from offbook.report.reporter import stdout_console

    table = Table(*COLUMNS, box=None, pad_edge=False, header_style="bold")
    for column in (3, 4):
        table.columns[column].justify = "right"
    for summary in summaries:
        table.add_row(*_cells(summary, runs_dir))
    stdout_console().print(table)


def _cells(summary: RunSummary, runs_dir: str) -> tuple[str, ...]:
    from offbook.cli.runners.resume import resume_command
    from offbook.text import printable

    if summary.problem:
        return summary.id, "", summary.status, "", "", "", printable(summary.problem.splitlines()[0])
    return (
        summary.id,
        printable(summary.workflow),
        summary.status,
        f"{summary.settled_steps}/{summary.steps}",
        format_usd(summary.cost_usd),
        summary.started_at[:19].replace("T", " "),
        resume_command(summary.id, runs_dir) if summary.can_be_resumed else "",
    )
