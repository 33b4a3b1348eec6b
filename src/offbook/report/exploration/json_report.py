"""An exploration as JSON, and read back from it."""

from __future__ import annotations

import os

import msgspec
from msgspec import UNSET, Struct, UnsetType

from offbook.errors import InputError
from offbook.explore.cases import FaultCase, HeatmapCell
from offbook.explore.causes import Discovery
from offbook.explore.compare import ExplorationComparison
from offbook.explore.explorer import CaseResult, Coverage, Exploration, coverage_of
from offbook.explore.recovery import FaultSpread, Recovery, RecoverySummary, recovery_of, spread_of, summarize_recovery
from offbook.explore.run import Run
from offbook.explore.schedule import LeftOutFault, LeftOutGroup, in_case_order
from offbook.explore.verdict import TITLES, Reason, Verdict, stored_assessment
from offbook.faults import PlannedFault
from offbook.files import read_file
from offbook.report.exploration.report_input import NO_ORIGIN, ExploredShard, ReportInput, ReportOrigin
from offbook.report.reporter import decode_report, encode_json
from offbook.shard import RunIdentity, ShardPart, digest_of, parse_shard
from offbook.text import did_you_mean_file

VERSION = 1
SHARD_HINT = "write the report of a shard with --shard 1/4 --reporter json=part1.json"
_HINT = "write one with the reporter json=exploration.json"


class ChangeReport(Struct, frozen=True):
    """A case with a changed verdict or reason, as JSON. None is a case that a budget left out or that did not exist."""

    case: str
    before: str | None
    after: str | None
    is_worse: bool
    was_left_out: bool
    is_left_out: bool


class ComparisonReport(Struct, frozen=True):
    """The differences from an earlier exploration, as JSON."""

    same: int
    changes: tuple[ChangeReport, ...]


class ExploredCaseReport(Struct, frozen=True, kw_only=True):
    """A case and its result, as JSON. `case` is the text of its faults, `same_as` the id of the case whose run it
    shares.
    """

    id: str
    case: str
    verdict: Verdict
    reason: Reason
    is_finding: bool
    evidence: tuple[str, ...]
    reproduce: str
    faults: tuple[PlannedFault, ...]
    cells: tuple[HeatmapCell, ...]
    same_as: str | None
    recovery: Recovery
    run: Run


class ShardReport(Struct, frozen=True, kw_only=True):
    """The data of a shard that `offbook merge` needs besides its cases, as JSON.

    `run` is the same in all shards of a run, `cases` is their total number, and `dealt` has the ids of all cases as
    scheduled. `not_tried` are the texts of the cases that a budget left out.
    """

    shard: str
    run: RunIdentity
    cases: int
    dealt: tuple[str, ...] = ()
    not_tried: tuple[str, ...]
    fail_on: tuple[str, ...]
    allow_partial: bool = False


class ExplorationReport(Struct, frozen=True, kw_only=True):
    """An exploration and its origin, as JSON. Only a shard has `shard`."""

    version: int
    subject: str
    is_complete: bool
    origin: ReportOrigin
    shard: ShardReport | UnsetType
    findings: int
    left: int
    left_out: tuple[LeftOutFault, ...]
    left_groups: tuple[LeftOutGroup, ...]
    left_orders: int
    tally: dict[str, int]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    coverage: Coverage
    discovery: Discovery
    recovery: RecoverySummary | None
    spread: tuple[FaultSpread, ...]
    comparison: ComparisonReport | None
    clean: Run
    explored: tuple[ExploredCaseReport, ...]


class _StoredCase(Struct, frozen=True, kw_only=True):
    """The stored part of a case that is read back. The rest is derived."""

    id: str
    verdict: Verdict
    reason: Reason = ""
    evidence: tuple[str, ...]
    faults: tuple[PlannedFault, ...]
    cells: tuple[HeatmapCell, ...]
    same_as: str | None = None
    reproduce: str = ""
    run: Run


class _StoredExploration(Struct, frozen=True, kw_only=True):
    """The stored part of an exploration that is read back."""

    subject: str
    clean: Run
    explored: tuple[_StoredCase, ...]
    left_out: tuple[LeftOutFault, ...] = ()
    left_groups: tuple[LeftOutGroup, ...] = ()
    left_orders: int = 0
    discovery: Discovery = Discovery()
    is_complete: bool = True
    shard: ShardReport | None = None
    origin: ReportOrigin = NO_ORIGIN


def exploration_json(report_input: ReportInput) -> bytes:
    """Return the exploration as JSON, a line for each case. Equal explorations give equal bytes."""
    exploration = report_input.exploration
    report = ExplorationReport(
        version=VERSION,
        subject=exploration.subject,
        is_complete=report_input.is_complete,
        origin=report_input.origin,
        shard=UNSET if report_input.shard is None else _shard_report(report_input.shard, exploration),
        findings=len(exploration.findings),
        left=exploration.left,
        left_out=exploration.left_out,
        left_groups=exploration.left_groups,
        left_orders=exploration.left_orders,
        tally=exploration.counts,
        rows=tuple(exploration.rows),
        columns=tuple(exploration.columns),
        coverage=coverage_of(exploration),
        discovery=exploration.discovery,
        recovery=summarize_recovery(exploration),
        spread=tuple(spread_of(exploration)),
        comparison=comparison_report(report_input.comparison),
        clean=exploration.clean,
        explored=(),
    )
    head = msgspec.json.format(encode_json(report), indent=2).removesuffix(b"[]\n}")
    cases = b",\n    ".join(encode_json(_case_report(each, report_input)) for each in exploration.results)
    return head + (b"[\n    " + cases + b"\n  ]" if cases else b"[]") + b"\n}\n"


def _shard_report(explored: ExploredShard, exploration: Exploration) -> ShardReport:
    cases = in_case_order([*(each.case for each in exploration.results), *exploration.elsewhere], lambda case: case)
    return ShardReport(
        shard=str(explored.shard),
        run={**explored.run, "cases": digest_of(f"{case.id} {case}" for case in cases)},
        cases=len(cases),
        dealt=exploration.dealt,
        not_tried=tuple(sorted(exploration.not_tried)),
        fail_on=tuple(title for title in TITLES if title in explored.fail_on),
        allow_partial=explored.allow_partial,
    )


def comparison_report(comparison: ExplorationComparison | None) -> ComparisonReport | None:
    """Return the comparison as JSON has it."""
    if comparison is None:
        return None
    changes = (
        ChangeReport(each.case, each.before, each.after, each.is_worse, each.was_left_out, each.is_left_out)
        for each in comparison.changes
    )
    return ComparisonReport(comparison.same, tuple(changes))


def load_exploration(path: str | os.PathLike[str]) -> Exploration:
    """Return the exploration in a JSON report.

    Raises:
        InputError: it cannot be read as one; names the file, the place in it and the reason.
    """
    return load_reported(path).exploration


def load_reported(path: str | os.PathLike[str]) -> ReportInput:
    """Return the exploration in a JSON report, as the input of further reports. Raises like `load_exploration`."""
    source = os.fspath(path)
    try:
        kept = _decode(read_file(source), source)
    except OSError as error:
        hint = did_you_mean_file(source, _HINT)
        raise InputError(error.strerror or str(error), source=source, hint=hint) from None
    commands = {each.id: each.reproduce for each in kept.explored}
    return ReportInput(
        exploration=_exploration(kept, source),
        reproduce=lambda case: commands[case.id],
        is_complete=kept.is_complete,
        origin=kept.origin,
    )


class LoadedShard(Struct, frozen=True):
    """The report of a shard, the exploration in it, the commands that run its cases again by id, and its origin."""

    part: ShardPart
    report: ShardReport
    exploration: Exploration
    commands: dict[str, str]
    origin: ReportOrigin = NO_ORIGIN


def load_shard(data: bytes, *, source: str) -> LoadedShard:
    """Return the exploration in the JSON report of a shard.

    Raises:
        InputError: it cannot be read as one; names the file, the place in it and the reason.
    """
    kept = _decode(data, source)
    if kept.shard is None:
        raise InputError("it is the report of a whole exploration", source=source, hint=SHARD_HINT)
    part = ShardPart(source, parse_shard(kept.shard.shard, source=source), kept.shard.run, kept.is_complete)
    commands = {each.id: each.reproduce for each in kept.explored}
    return LoadedShard(part, kept.shard, _exploration(kept, source), commands, kept.origin)


def _decode(data: bytes, source: str) -> _StoredExploration:
    return decode_report(data, _StoredExploration, version=VERSION, source=source, hint=_HINT)


def _exploration(kept: _StoredExploration, source: str) -> Exploration:
    return Exploration(
        kept.subject,
        kept.clean,
        tuple(_read_case(each, f"explored[{place}]", source) for place, each in enumerate(kept.explored)),
        left_out=kept.left_out,
        left_groups=kept.left_groups,
        left_orders=kept.left_orders,
        discovery=kept.discovery,
    )


def _case_report(explored: CaseResult, report_input: ReportInput) -> ExploredCaseReport:
    return ExploredCaseReport(
        id=explored.case.id,
        case=str(explored.case),
        verdict=explored.verdict,
        reason=explored.reason,
        is_finding=explored.is_finding,
        evidence=explored.evidence,
        reproduce=report_input.reproduce(explored.case),
        faults=explored.case.lines,
        cells=explored.case.cells,
        same_as=explored.same_as or None,
        recovery=recovery_of(explored.run, report_input.exploration.clean),
        run=explored.run,
    )


def _read_case(kept: _StoredCase, place: str, source: str) -> CaseResult:
    for index, planned in enumerate(kept.faults):
        try:
            planned.at.fail(planned.fault)
        except InputError as error:
            where = f"{place}.faults[{index}].at.{error.place}"
            raise InputError(error.reason, source=source, place=where, hint=error.hint) from None
    assessment = stored_assessment(kept.verdict, kept.evidence, kept.reason)
    return CaseResult(FaultCase(kept.id, kept.faults, kept.cells), kept.run, assessment, kept.same_as or "")
