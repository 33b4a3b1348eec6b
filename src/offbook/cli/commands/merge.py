"""offbook merge: makes one report of the reports of shards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from offbook.cli.options import AsJson, HtmlReport
from offbook.decoding import decode


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

    Merges the shards of one run of `offbook explore` or `offbook test`. Reports and exit code are those of the run
    without --shard. Exits with 2 if a shard is missing, appears twice, ended early, or belongs to another run.

    [bold]Examples[/bold]

      offbook merge part*.json

      offbook merge part*.json --report report.html --reporter junit=all.xml
    """
    from offbook.cli.parse import check_page

    check_page(report)
    reporters = [*reporter, *([] if report is None else [f"html={report}"])]
    files = [(path, _read(path)) for path in parts]
    merges = _merge_explorations if _are_explorations(files) else _merge_suites
    raise typer.Exit(merges(files, reporters, compare=compare, is_json=as_json))


def _read(path: str) -> bytes:
    from offbook.errors import InputError
    from offbook.files import read_file
    from offbook.report.exploration.json_report import SHARD_HINT
    from offbook.text import did_you_mean_file

    try:
        return read_file(path)
    except OSError as error:
        raise InputError(error.strerror or str(error), source=path, hint=did_you_mean_file(path, SHARD_HINT)) from None


def _are_explorations(files: Sequence[tuple[str, bytes]]) -> bool:
    """Return whether these are reports of explorations, not of scenarios.

    Raises:
        InputError: one is not a report, or there are both kinds.
    """
    from offbook.errors import InputError

    are_explored = [_is_exploration(data, path) for path, data in files]
    for (path, _), is_explored in zip(files, are_explored, strict=True):
        if is_explored != are_explored[0]:
            kinds = ("an exploration", "scenarios") if is_explored else ("scenarios", "an exploration")
            reason = f"it is a report of {kinds[0]}, and {files[0][0]} is one of {kinds[1]}"
            raise InputError(reason, source=path, hint="merge the shards of one run")
    return are_explored[0]


def _is_exploration(data: bytes, source: str) -> bool:
    import msgspec

    from offbook.errors import InputError
    from offbook.report.exploration.json_report import SHARD_HINT

    try:
        fields = decode(data, dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise InputError("it is not a JSON report", source=source, hint=SHARD_HINT) from None
    if not fields.keys() & {"explored", "scenarios"}:
        raise InputError("it is not a report of an exploration or of scenarios", source=source, hint=SHARD_HINT)
    return "explored" in fields


def _merge_explorations(
    files: Sequence[tuple[str, bytes]], reporters: Sequence[str], *, compare: str | None, is_json: bool
) -> int:
    """Write the reports of these shards' exploration, and return its exit code.

    Raises:
        InputError: a report cannot be read, or a shard is missing, doubled, partial, or of another run.
    """
    from msgspec.structs import replace

    from offbook.cli.output.exploration import ExplorationOutput, exploration_exit_code
    from offbook.explore.schedule import Pace
    from offbook.report.exploration import ExplorationReporters, load_exploration
    from offbook.report.exploration.json_report import load_shard
    from offbook.report.exploration.report_input import ReportOptions
    from offbook.report.shards import merge_explorations

    merged = merge_explorations([load_shard(data, source=path) for path, data in files])
    before = None if compare is None else load_exploration(compare)
    output = ExplorationOutput(reporters=reporters, is_json=is_json)
    options = ReportOptions(merged.reproduce, before, origin=merged.origin)
    reporter = ExplorationReporters(*output.reporters_of(options, Pace()))
    reporter.begin(replace(merged.exploration, results=()), len(merged.exploration.results))
    reporter.finish(merged.exploration)
    return exploration_exit_code(
        merged.exploration, fail_on=merged.fail_on, before=before, allow_partial=merged.allow_partial
    )


def _merge_suites(
    files: Sequence[tuple[str, bytes]], reporters: Sequence[str], *, compare: str | None, is_json: bool
) -> int:
    """Write the reports of these shards' scenarios, and return the exit code. Scenarios are not compared."""
    from msgspec.structs import replace

    from offbook.cli.output.scenarios import end_scenarios, scenario_reporters
    from offbook.config.participants import ErrorGrouping
    from offbook.errors import InputError
    from offbook.report import Reporters, report
    from offbook.report.scenarios.json_report import load_suite
    from offbook.report.shards import LoadedSuite, merge_suites

    if compare is not None:
        raise InputError("it is for explorations", source="--compare", hint="leave it out")
    merged = merge_suites([LoadedSuite(path, load_suite(data, source=path)) for path, data in files])
    grouping = ErrorGrouping("label" if merged.is_grouped else "none")
    result = replace(merged.result, groups=grouping.groups_without_model(merged.result))
    report(result, Reporters(*scenario_reporters(reporters, is_json=is_json)))
    return end_scenarios(result, merged.unused, record_again=merged.record_again, is_json=is_json)
