"""An exploration as JSON, and read back from it."""

from __future__ import annotations

import os

import msgspec
from msgspec import Struct

from offbook.errors import InputError
from offbook.explore.cases import FaultCase, HeatmapCell
from offbook.explore.compare import Coverage, ExplorationComparison, coverage_of
from offbook.explore.explorer import CaseResult, Exploration
from offbook.explore.run import Run
from offbook.explore.schedule import LeftOut
from offbook.explore.verdict import Assessment, Verdict
from offbook.faults import PlannedFault
from offbook.files import read_file
from offbook.report.exploration.report_input import ReportInput
from offbook.report.reporter import encode_json
from offbook.schema_errors import check_keys, explain_json_error, explain_msgspec_error

VERSION = 1
_HINT = "write one with the reporter json=exploration.json"


class ChangeReport(Struct, frozen=True):
    """A case whose verdict has changed, as JSON; or that a budget left out, then or now, so that it has none."""

    case: str
    before: Verdict | None
    after: Verdict | None
    is_worse: bool
    was_left_out: bool
    is_left_out: bool


class ComparisonReport(Struct, frozen=True):
    """What differs from an earlier exploration, as JSON."""

    same: int
    changes: tuple[ChangeReport, ...]


class CaseReport(Struct, frozen=True, kw_only=True):
    """A case and its result, as JSON. `case` is the text of its faults, `same_as` the id of one whose run it shares."""

    id: str
    case: str
    verdict: Verdict
    is_finding: bool
    evidence: tuple[str, ...]
    reproduce: str
    faults: tuple[PlannedFault, ...]
    cells: tuple[HeatmapCell, ...]
    same_as: str | None
    run: Run


class ExplorationReport(Struct, frozen=True, kw_only=True):
    """An exploration, as JSON."""

    version: int
    subject: str
    is_complete: bool
    findings: int
    left: int
    left_out: tuple[LeftOut, ...]
    left_orders: int
    tally: dict[Verdict, int]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    coverage: Coverage
    comparison: ComparisonReport | None
    clean: Run
    explored: tuple[CaseReport, ...]


class _StoredCase(Struct, frozen=True, kw_only=True):
    """What is read back of a case; the rest follows from it."""

    id: str
    verdict: Verdict
    evidence: tuple[str, ...]
    faults: tuple[PlannedFault, ...]
    cells: tuple[HeatmapCell, ...]
    same_as: str | None = None
    run: Run


class _StoredExploration(Struct, frozen=True, kw_only=True):
    """What is read back of an exploration."""

    subject: str
    clean: Run
    explored: tuple[_StoredCase, ...]
    left_out: tuple[LeftOut, ...] = ()
    left_orders: int = 0


class _ReportVersion(Struct, frozen=True):
    version: int


def exploration_json(report_input: ReportInput) -> bytes:
    """The exploration as JSON, a line for each case, the same bytes for equal ones. `load_exploration` reads it."""
    exploration = report_input.exploration
    report = ExplorationReport(
        version=VERSION,
        subject=exploration.subject,
        is_complete=report_input.is_complete,
        findings=len(exploration.findings),
        left=exploration.left,
        left_out=exploration.left_out,
        left_orders=exploration.left_orders,
        tally=exploration.counts,
        rows=tuple(exploration.rows),
        columns=tuple(exploration.columns),
        coverage=coverage_of(exploration),
        comparison=comparison_report(report_input.comparison),
        clean=exploration.clean,
        explored=(),
    )
    head = msgspec.json.format(encode_json(report), indent=2).removesuffix(b"[]\n}")
    cases = b",\n    ".join(encode_json(_case_report(each, report_input)) for each in exploration.results)
    return head + (b"[\n    " + cases + b"\n  ]" if cases else b"[]") + b"\n}\n"


def comparison_report(comparison: ExplorationComparison | None) -> ComparisonReport | None:
    """The comparison as JSON."""
    if comparison is None:
        return None
    changes = (
        ChangeReport(each.case, each.before, each.after, each.is_worse, each.was_left_out, each.is_left_out)
        for each in comparison.changes
    )
    return ComparisonReport(comparison.same, tuple(changes))


def load_exploration(path: str | os.PathLike[str]) -> Exploration:
    """The exploration in a JSON report.

    Raises:
        InputError: it cannot be read as one; names the file, the place in it and the reason.
    """
    source = os.fspath(path)
    try:
        data = read_file(path)
    except OSError as error:
        raise InputError(error.strerror or str(error), source=source, hint=_HINT) from None
    kept = _read(data, source=source)
    results = tuple(_read_case(each, f"explored[{place}]", source) for place, each in enumerate(kept.explored))
    return Exploration(kept.subject, kept.clean, results, kept.left_out, left_orders=kept.left_orders)


def _case_report(explored: CaseResult, report_input: ReportInput) -> CaseReport:
    return CaseReport(
        id=explored.case.id,
        case=str(explored.case),
        verdict=explored.verdict,
        is_finding=explored.is_finding,
        evidence=explored.assessment.evidence,
        reproduce=report_input.reproduce(explored.case),
        faults=explored.case.lines,
        cells=explored.case.cells,
        same_as=explored.same_as or None,
        run=explored.run,
    )


def _read(data: bytes, *, source: str) -> _StoredExploration:
    try:
        data.decode()
        check_keys(data)
        version = msgspec.json.decode(data, type=_ReportVersion).version
        if version != VERSION:
            hint = f"this offbook reads version {VERSION}; explore again"
            raise InputError(f"a report of version {version}", source=source, place="version", hint=hint)
        return msgspec.json.decode(data, type=_StoredExploration)
    except msgspec.ValidationError as error:
        reason, place = explain_msgspec_error(error)
        raise InputError(reason, source=source, place=place.removeprefix("."), hint=_HINT) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        reason, place = explain_json_error(data, error)
        raise InputError(reason, source=source, place=place, hint=_HINT) from None


def _read_case(kept: _StoredCase, place: str, source: str) -> CaseResult:
    for index, planned in enumerate(kept.faults):
        try:
            planned.at.fail(planned.fault)
        except InputError as error:
            where = f"{place}.faults[{index}].at.{error.place}"
            raise InputError(error.reason, source=source, place=where, hint=error.hint) from None
    case, assessment = FaultCase(kept.id, kept.faults, kept.cells), Assessment(kept.verdict, kept.evidence)
    return CaseResult(case, kept.run, assessment, kept.same_as or "")
