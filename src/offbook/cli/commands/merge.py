"""offbook merge: makes one report of the reports of shards."""

from __future__ import annotations

from typing import Annotated

import typer

from offbook.cli.options import AsJson, HtmlReport


def merge(
    parts: Annotated[
        list[str], typer.Argument(metavar="PART", help="The json=PATH reports of all shards.", show_default=False)
    ],
    report: HtmlReport = None,
    reporter: Annotated[
        list[str], typer.Option(help="Another report: html=PATH, json=PATH, junit=PATH or github. Repeatable.")
    ] = [],  # noqa: B006
    compare: Annotated[
        str | None, typer.Option(metavar="PATH", help="Compare an exploration with an earlier json=PATH report.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Merge the reports of shards into one.

    The shards are those of one run of `offbook explore` or `offbook test` with --shard. Reports and exit code are those
    of the run without --shard. Exits with 2 if a shard is missing, is there twice, ended early, or belongs to
    another run.

    [bold]Examples[/bold]

      offbook merge part*.json

      offbook merge part*.json --report report.html --reporter junit=all.xml
    """
    from offbook.cli.parse import check_page
    from offbook.cli.runners.merge import MergeArguments, run_merge

    check_page(report)
    reporters = [*reporter, *([] if report is None else [f"html={report}"])]
    raise typer.Exit(run_merge(MergeArguments(parts=parts, reporters=reporters, compare=compare, is_json=as_json)))
