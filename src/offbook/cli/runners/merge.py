"""Merges the reports of shards for a command: which kind they are, the reports of the whole, and the exit code."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Raw, Struct, UnsetType
from msgspec.structs import replace

from offbook.cli.output.exploration import ExplorationOutput, exploration_exit_code
from offbook.cli.output.scenarios import end_scenarios, scenario_reporters
from offbook.errors import InputError
from offbook.explore.schedule import Pace
from offbook.files import read_file
from offbook.report import Reporters, report
from offbook.report.exploration import ExplorationReporters, load_exploration
from offbook.report.exploration.json_report import SHARD_HINT, load_shard
from offbook.report.exploration.report_input import ReportOptions
from offbook.report.scenarios.json_report import load_suite
from offbook.report.shards import LoadedSuite, merge_explorations, merge_suites
from offbook.text import did_you_mean_file


class MergeArguments(Struct, frozen=True, kw_only=True):
    """The reports of shards, the reports to make of them, and an earlier report of an exploration to compare with."""

    parts: Sequence[str]
    reporters: Sequence[str] = ()
    compare: str | None = None
    is_json: bool = False


class _Kind(Struct):
    """What tells reports of explorations from those of scenarios."""

    explored: Raw | UnsetType = msgspec.UNSET
    scenarios: Raw | UnsetType = msgspec.UNSET


def run_merge(arguments: MergeArguments) -> int:
    """Merge the reports, write those of the whole run, and return its exit code.

    Raises:
        InputError: a report cannot be read, or a shard is missing, doubled, partial, or of another run.
    """
    files = [(path, _read(path)) for path in arguments.parts]
    are_explored = [_is_exploration(data, path) for path, data in files]
    for (path, _), is_explored in zip(files, are_explored, strict=True):
        if is_explored != are_explored[0]:
            kinds = ("an exploration", "scenarios") if is_explored else ("scenarios", "an exploration")
            reason = f"it is a report of {kinds[0]}, and {files[0][0]} is one of {kinds[1]}"
            raise InputError(reason, source=path, hint="merge the shards of one run")
    return _merge_explorations(files, arguments) if are_explored[0] else _merge_suites(files, arguments)


def _read(path: str) -> bytes:
    try:
        return read_file(path)
    except OSError as error:
        raise InputError(error.strerror or str(error), source=path, hint=did_you_mean_file(path, SHARD_HINT)) from None


def _is_exploration(data: bytes, source: str) -> bool:
    try:
        kind = msgspec.json.decode(data, type=_Kind)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise InputError("it is not a JSON report", source=source, hint=SHARD_HINT) from None
    if isinstance(kind.explored, UnsetType) and isinstance(kind.scenarios, UnsetType):
        raise InputError("it is not a report of an exploration or of scenarios", source=source, hint=SHARD_HINT)
    return not isinstance(kind.explored, UnsetType)


def _merge_explorations(files: Sequence[tuple[str, bytes]], arguments: MergeArguments) -> int:
    merged = merge_explorations([load_shard(data, source=path) for path, data in files])
    before = None if arguments.compare is None else load_exploration(arguments.compare)
    output = ExplorationOutput(reporters=arguments.reporters, is_json=arguments.is_json)
    options = ReportOptions(merged.reproduce, before, origin=merged.origin)
    reporter = ExplorationReporters(*output.reporters_of(options, Pace()))
    reporter.begin(replace(merged.exploration, results=()), len(merged.exploration.results))
    reporter.finish(merged.exploration)
    return exploration_exit_code(merged.exploration, fail_on=merged.fail_on, before=before)


def _merge_suites(files: Sequence[tuple[str, bytes]], arguments: MergeArguments) -> int:
    from offbook.config.participants import ErrorGrouping  # explorations need no config

    if arguments.compare is not None:
        raise InputError("it is for explorations", source="--compare", hint="leave it out")
    merged = merge_suites([LoadedSuite(path, load_suite(data, source=path)) for path, data in files])
    grouping = ErrorGrouping("label" if merged.is_grouped else "none")
    result = replace(merged.result, groups=grouping.groups_without_model(merged.result))
    report(result, Reporters(*scenario_reporters(arguments.reporters, is_json=arguments.is_json)))
    return end_scenarios(result, merged.unused, record_again=merged.record_again, is_json=arguments.is_json)
