"""Runs over time: the heatmaps of several explorations in one, and the pass rates of scenarios."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from offbook.explore.explorer import CaseResult, Exploration
from offbook.explore.verdict import FINDING_LABELS, LABELS
from offbook.files import read_regular
from offbook.report.exploration.heatmap import VERDICT_STYLES, heatmap_of, results_by_cell, row_labels
from offbook.report.exploration.json_report import load_exploration
from offbook.report.scenarios.figures import figures_of
from offbook.report.scenarios.json_report import load_suite
from offbook.view.summary import ListedRun

MAX_VERSIONS = 12
"""The number of explorations that a heatmap shows side by side: the latest."""

MAX_SUITES = 50
"""The number of scenario runs whose pass rates are shown, latest first."""


class VerdictSign(Struct, frozen=True):
    """A verdict's label, sign and meaning."""

    name: str
    sign: str
    meaning: str
    is_finding: bool


class HeatVersion(Struct, frozen=True, kw_only=True):
    """One of several explorations of the same subject."""

    id: str
    modified_at: str
    cases: int
    findings: int
    is_complete: bool


class HeatCell(Struct, frozen=True):
    """A call and a fault with the label, id and title of the case in each version; None for a missing case."""

    row: int
    column: int
    results: tuple[tuple[str, str, str] | None, ...]


class HeatHistory(Struct, frozen=True):
    """The heatmaps of several explorations, the latest last."""

    subject: str
    versions: tuple[HeatVersion, ...]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: tuple[HeatCell, ...]
    verdicts: tuple[VerdictSign, ...]


def heat_history(subject: str, runs: Sequence[tuple[ListedRun, Path]]) -> HeatHistory:
    """Return the heatmap of some explorations of one subject.

    Raises:
        InputError: a report cannot be read.
    """
    latest = sorted(runs, key=lambda run: (run[0].modified_at, run[0].id))[-MAX_VERSIONS:]
    explorations = [load_exploration(path) for _, path in latest]
    found = [results_by_cell(exploration) for exploration in explorations]
    rows = dict.fromkeys(name for each in explorations for name in [row.name for row in heatmap_of(each).rows])
    columns = dict.fromkeys(name for each in explorations for name in each.columns)
    labels = {row: label for each in explorations for row, label in row_labels(each).items()}
    row_at, column_at = ({name: place for place, name in enumerate(names)} for names in (rows, columns))
    places = dict.fromkeys(place for cells in found for place in cells)
    cells = [
        HeatCell(row_at[row], column_at[column], tuple(_result(cells.get((row, column))) for cells in found))
        for row, column in places
    ]
    return HeatHistory(
        subject=subject,
        versions=tuple(_version(run, each) for (run, _), each in zip(latest, explorations, strict=True)),
        rows=tuple(labels.get(row, row) for row in rows),
        columns=tuple(columns),
        cells=tuple(cells),
        verdicts=verdict_signs(),
    )


def verdict_signs() -> tuple[VerdictSign, ...]:
    """Return all verdicts, the worst first."""
    return tuple(
        VerdictSign(name, VERDICT_STYLES[name].letter, VERDICT_STYLES[name].meaning, name in FINDING_LABELS)
        for name in LABELS
    )


def _result(found: CaseResult | None) -> tuple[str, str, str] | None:
    return None if found is None else (found.label, found.case.id, found.title)


def _version(run: ListedRun, exploration: Exploration) -> HeatVersion:
    return HeatVersion(
        id=run.id,
        modified_at=run.modified_at,
        cases=len(exploration.results),
        findings=len(exploration.findings),
        is_complete="not complete" not in run.verdict,
    )


class RatePoint(Struct, frozen=True, kw_only=True):
    """The pass rate of a scenario in one run, with the 95 % interval. `run` is a place in the list of runs."""

    run: int
    passed: bool
    passes: int
    runs: int
    rate: float
    low: float
    high: float
    cost_usd: float
    tokens: int


class ScenarioHistory(Struct, frozen=True):
    """A scenario with one agent, over time."""

    name: str
    agent: str
    source: str
    points: tuple[RatePoint, ...]


class SuiteHistory(Struct, frozen=True):
    """Scenarios over the runs that have them, the latest run last."""

    runs: tuple[ListedRun, ...]
    scenarios: tuple[ScenarioHistory, ...]


def suite_history(runs: Sequence[tuple[ListedRun, Path]]) -> SuiteHistory:
    """Return the pass rates of the scenarios of some runs.

    Raises:
        InputError: a report cannot be read.
    """
    latest = sorted(runs, key=lambda run: (run[0].modified_at, run[0].id))[-MAX_SUITES:]
    found: dict[tuple[str, str, str], list[RatePoint]] = {}
    for place, (_, path) in enumerate(latest):
        for key, point in _points(path, place):
            found.setdefault(key, []).append(point)
    scenarios = (ScenarioHistory(name, agent, file, tuple(points)) for (file, name, agent), points in found.items())
    return SuiteHistory(tuple(run for run, _ in latest), tuple(scenarios))


def _points(path: Path, place: int) -> Iterable[tuple[tuple[str, str, str], RatePoint]]:
    for scenario in load_suite(read_regular(path), source=str(path)).scenarios:
        figures = figures_of(scenario)
        file = scenario.source.rpartition(":")[0] or scenario.source
        yield (
            (file, scenario.name, scenario.agent),
            RatePoint(
                run=place,
                passed=scenario.passed,
                passes=figures.passes,
                runs=figures.runs,
                rate=figures.pass_rate,
                low=figures.interval.low,
                high=figures.interval.high,
                cost_usd=figures.cost_usd,
                tokens=figures.tokens,
            ),
        )
