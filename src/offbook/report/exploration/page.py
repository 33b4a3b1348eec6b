"""An exploration as an HTML page, and the data that the page shows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct

from offbook.explore.compare import Coverage, coverage_of
from offbook.explore.explorer import CaseResult
from offbook.explore.run import RunFailure
from offbook.explore.verdict import FINDINGS, VERDICTS, Verdict
from offbook.report.exploration.heatmap import VERDICT_STYLES, heatmap_of
from offbook.report.exploration.json_report import ComparisonReport, comparison_report
from offbook.report.exploration.report_input import FindingGroup, ReportInput, group_findings
from offbook.report.exploration.timeline import Timeline, TimelineStep, compare_tool_calls, timeline_of
from offbook.report.reporter import standalone_page
from offbook.report.text import encode_json


class PageVerdict(Struct, frozen=True):
    """A verdict, how it is shown, and how many cases have it."""

    name: Verdict
    letter: str
    meaning: str
    is_finding: bool
    cases: int


class PageCase(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A case. Steps are numbers in the page's list of steps; `places` are a row and a column of the heatmap each.

    `pairs` are the calls of tools of the clean run beside those of this one. `result` is there if it is another one
    than that of the clean run.
    """

    id: str
    faults: tuple[str, ...]
    verdict: Verdict
    evidence: tuple[str, ...]
    reproduce: str
    timeline: tuple[int, ...]
    fired: tuple[int, ...] = ()
    pairs: tuple[tuple[int | None, int | None], ...] = ()
    places: tuple[tuple[int, int], ...] = ()
    has_result: bool = False
    result: Any = None
    error: RunFailure | None = None
    took_s: float = 0.0
    paths: dict[str, int] = {}


class PageFinding(Struct, frozen=True):
    """A finding: the numbers of its cases in the page's list of cases."""

    verdict: Verdict
    headline: str
    cases: tuple[int, ...]


class PageData(Struct, frozen=True, kw_only=True):
    """An exploration, as its page has it."""

    subject: str
    is_complete: bool
    left: int
    verdicts: tuple[PageVerdict, ...]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    steps: tuple[TimelineStep, ...]
    cases: tuple[PageCase, ...]
    findings: tuple[PageFinding, ...]
    result: Any
    took_s: float
    coverage: Coverage
    comparison: ComparisonReport | None


class _StepTable:
    """The steps of all runs, each once: most runs have most of theirs in common."""

    def __init__(self) -> None:
        self.all: list[TimelineStep] = []
        self._numbers: dict[bytes, int] = {}

    def numbers(self, steps: Iterable[TimelineStep]) -> tuple[int, ...]:
        return tuple(map(self.number, steps))

    def number(self, step: TimelineStep) -> int:
        known = self._numbers.setdefault(encode_json(step), len(self.all))
        if known == len(self.all):
            self.all.append(step)
        return known


def page_data(report_input: ReportInput) -> PageData:
    """All that the page of an exploration shows."""
    exploration, steps = report_input.exploration, _StepTable()
    heatmap, tally = heatmap_of(exploration), exploration.counts
    rows, columns = [row.name for row in heatmap.rows], list(heatmap.columns)
    cases = _CaseBuilder(report_input, steps, rows=rows, columns=columns)
    return PageData(
        subject=exploration.subject,
        is_complete=report_input.is_complete,
        left=exploration.left,
        verdicts=tuple(_page_verdict(name, tally.get(name, 0)) for name in VERDICTS),
        rows=tuple(rows),
        columns=tuple(columns),
        cases=tuple(map(cases.case, exploration.results)),
        steps=tuple(steps.all),
        findings=tuple(_page_findings(group_findings(exploration), exploration.results)),
        result=exploration.clean.result,
        took_s=exploration.clean.took_s,
        coverage=coverage_of(exploration),
        comparison=comparison_report(report_input.comparison),
    )


class _CaseBuilder:
    """Makes the cases of a page."""

    def __init__(
        self, report_input: ReportInput, steps: _StepTable, *, rows: Sequence[str], columns: Sequence[str]
    ) -> None:
        self._report_input, self._steps = report_input, steps
        self._rows = {name: place for place, name in enumerate(rows)}
        self._columns = {name: place for place, name in enumerate(columns)}
        self._clean = timeline_of(report_input.exploration.clean)

    def case(self, explored: CaseResult) -> PageCase:
        run, case = explored.run, explored.case
        timeline = timeline_of(run, case)
        has_result = run.error is None and run.result != self._report_input.exploration.clean.result
        return PageCase(
            id=case.id,
            faults=tuple(map(str, case.lines)),
            verdict=explored.verdict,
            evidence=explored.assessment.evidence,
            reproduce=self._report_input.reproduce(case),
            timeline=self._steps.numbers(timeline.steps),
            fired=timeline.fired,
            pairs=self._pairs(timeline),
            places=tuple((self._rows[cell.row], self._columns[cell.column]) for cell in case.cells),
            has_result=has_result,
            result=run.result if has_result else None,
            error=run.error,
            took_s=run.took_s,
            paths=run.paths,
        )

    def _pairs(self, timeline: Timeline) -> tuple[tuple[int | None, int | None], ...]:
        """The calls side by side, or nothing where they are all the same."""
        pairs = compare_tool_calls(self._clean.steps, timeline.steps)
        if all(pair.is_same for pair in pairs):
            return ()
        return tuple((self._number(pair.clean), self._number(pair.run)) for pair in pairs)

    def _number(self, step: TimelineStep | None) -> int | None:
        return None if step is None else self._steps.number(step)


def _page_verdict(name: Verdict, cases: int) -> PageVerdict:
    sign = VERDICT_STYLES[name]
    return PageVerdict(name, sign.letter, sign.meaning, name in FINDINGS, cases)


def _page_findings(findings: Iterable[FindingGroup], explored: Sequence[CaseResult]) -> Iterable[PageFinding]:
    numbers = {each.case.id: number for number, each in enumerate(explored)}
    for finding in findings:
        yield PageFinding(finding.verdict, finding.headline, tuple(numbers[each.case.id] for each in finding.results))


def exploration_page(report_input: ReportInput) -> bytes:
    """The exploration as a page. What runs said is in it as JSON; its script shows it as text, never as HTML."""
    return standalone_page("exploration", encode_json(page_data(report_input)))
