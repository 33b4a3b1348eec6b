"""An exploration as JSON: everything that is known of it, to be read back."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
from msgspec import Struct

from offbook.errors import InputError
from offbook.explore.case import Case, Cell
from offbook.explore.comparison import Comparison
from offbook.explore.coverage import Coverage, coverage_of
from offbook.explore.exploration import Exploration, Explored
from offbook.explore.run import Run
from offbook.explore.verdict import Judged, Verdict
from offbook.faults import PlannedFault
from offbook.faults.complaint import broken_json, reason_and_path
from offbook.report.encoding import encoded
from offbook.report.exploration.account import Account

VERSION = 1
_HINT = "write one with the reporter json=exploration.json"


class ChangeReport(Struct, frozen=True):
    """A case whose verdict is another than before, as it is told in JSON."""

    case: str
    before: Verdict | None
    after: Verdict | None
    is_worse: bool


class ComparisonReport(Struct, frozen=True):
    """What differs from an earlier exploration, as it is told in JSON."""

    same: int
    changes: tuple[ChangeReport, ...]


class CaseReport(Struct, frozen=True, kw_only=True):
    """A case and what became of it, as it is told in JSON. `case` is the text of its faults."""

    id: str
    case: str
    verdict: Verdict
    is_finding: bool
    evidence: tuple[str, ...]
    reproduce: str
    faults: tuple[PlannedFault, ...]
    cells: tuple[Cell, ...]
    run: Run


class ExplorationReport(Struct, frozen=True, kw_only=True):
    """An exploration, as it is told in JSON."""

    version: int
    subject: str
    is_complete: bool
    findings: int
    left: int
    tally: dict[Verdict, int]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    coverage: Coverage
    comparison: ComparisonReport | None
    clean: Run
    explored: tuple[CaseReport, ...]


class _Kept(Struct, frozen=True, kw_only=True):
    """What is read back of a case; the rest follows from it."""

    id: str
    verdict: Verdict
    evidence: tuple[str, ...]
    faults: tuple[PlannedFault, ...]
    cells: tuple[Cell, ...]
    run: Run


class _KeptExploration(Struct, frozen=True, kw_only=True):
    """What is read back of an exploration."""

    subject: str
    clean: Run
    explored: tuple[_Kept, ...]
    left: int


class _Versioned(Struct, frozen=True):
    version: int


def exploration_json(account: Account) -> bytes:
    """The exploration as JSON, a line for each case, the same bytes for equal ones. `load_exploration` reads it."""
    exploration = account.exploration
    told = ExplorationReport(
        version=VERSION,
        subject=exploration.subject,
        is_complete=account.is_complete,
        findings=len(exploration.findings),
        left=exploration.left,
        tally=exploration.tally,
        rows=tuple(exploration.rows),
        columns=tuple(exploration.columns),
        coverage=coverage_of(exploration),
        comparison=comparison_report(account.comparison),
        clean=exploration.clean,
        explored=(),
    )
    head = msgspec.json.format(encoded(told), indent=2).removesuffix(b"[]\n}")
    cases = b",\n    ".join(encoded(_case(each, account)) for each in exploration.explored)
    return head + (b"[\n    " + cases + b"\n  ]" if cases else b"[]") + b"\n}\n"


def comparison_report(comparison: Comparison | None) -> ComparisonReport | None:
    """The comparison as it is told in JSON."""
    if comparison is None:
        return None
    changes = (ChangeReport(each.case, each.before, each.after, each.is_worse) for each in comparison.changes)
    return ComparisonReport(comparison.same, tuple(changes))


def load_exploration(path: str | os.PathLike[str]) -> Exploration:
    """The exploration in a JSON report.

    Raises:
        InputError: it cannot be read as one; names the file, the place in it and the reason.
    """
    source = os.fspath(path)
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise InputError(error.strerror or str(error), source=source, hint=_HINT) from None
    kept = _read(data, source=source)
    explored = (_explored(each, f"explored[{place}]", source) for place, each in enumerate(kept.explored))
    return Exploration(kept.subject, kept.clean, tuple(explored), kept.left)


def _case(explored: Explored, account: Account) -> CaseReport:
    return CaseReport(
        id=explored.case.id,
        case=str(explored.case),
        verdict=explored.verdict,
        is_finding=explored.is_finding,
        evidence=explored.judged.evidence,
        reproduce=account.reproduce(explored.case),
        faults=explored.case.lines,
        cells=explored.case.cells,
        run=explored.run,
    )


def _read(data: bytes, *, source: str) -> _KeptExploration:
    try:
        data.decode()
        version = msgspec.json.decode(data, type=_Versioned).version
        if version != VERSION:
            hint = f"this offbook reads version {VERSION}; explore again"
            raise InputError(f"a report of version {version}", source=source, place="version", hint=hint)
        return msgspec.json.decode(data, type=_KeptExploration)
    except msgspec.ValidationError as error:
        reason, place = reason_and_path(error)
        raise InputError(reason, source=source, place=place.removeprefix("."), hint=_HINT) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        reason, place = broken_json(data, error)
        raise InputError(reason, source=source, place=place, hint=_HINT) from None


def _explored(kept: _Kept, place: str, source: str) -> Explored:
    for index, planned in enumerate(kept.faults):
        try:
            planned.at.fail(planned.fault)
        except InputError as error:
            where = f"{place}.faults[{index}].at.{error.place}"
            raise InputError(error.reason, source=source, place=where, hint=error.hint) from None
    return Explored(Case(kept.id, kept.faults, kept.cells), kept.run, Judged(kept.verdict, kept.evidence))
