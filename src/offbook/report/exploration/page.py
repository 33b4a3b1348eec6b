"""An exploration as an HTML page with its data, such as the timeline of each run next to the clean run's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from offbook.explore.cases import FaultCase, site_of
from offbook.explore.explorer import CaseResult, Coverage, coverage_of
from offbook.explore.run import ModelCall, Run, RunFailure, ToolRun
from offbook.explore.verdict import FINDING_LABELS, LABELS
from offbook.messages import JsonObject
from offbook.report.exploration.heatmap import VERDICT_STYLES, Heatmap, heatmap_of
from offbook.report.exploration.json_report import ComparisonReport, comparison_report
from offbook.report.exploration.report_input import (
    ReportInput,
    ReportOrigin,
    exploration_measures,
    exploration_notes,
    group_findings,
    verdict_noun,
)
from offbook.report.reporter import encode_json, standalone_page
from offbook.text import pluralize

CallKey: TypeAlias = tuple[str, bytes]
"""A tool, and the JSON of its arguments."""


class RequestedCall(Struct, frozen=True, omit_defaults=True):
    """A tool, and the arguments that it was, or is to be, called with."""

    tool: str
    arguments: JsonObject


class TimelineStep(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A call of a model or a tool.

    `name` is its name in pictures. `asks_for` are the tools that a model requests, or a tool call itself. `notes` hold
    further remarks.
    """

    kind: Literal["model", "tool"]
    name: str
    asks_for: tuple[RequestedCall, ...] = ()
    model: str = ""
    result: str = ""
    error: str = ""
    notes: tuple[str, ...] = ()


class Timeline(Struct, frozen=True):
    """The steps of a run, and the positions of fired faults among them, from 0."""

    steps: tuple[TimelineStep, ...]
    fired: tuple[int, ...] = ()


def timeline_of(run: Run, case: FaultCase | None = None) -> Timeline:
    """Return the timeline of a run; with its case, also the places of the case's fired faults.

    A run keeps its model calls and its tool calls apart, each in order. A tool call follows the model call that asked
    for it. An unrequested one precedes the next requested one.
    """
    calls = list(_in_order(run))
    lines = case.lines if case is not None and run.fired else ()
    fired = [place for place, call in enumerate(calls) if any(line.at.covers(site_of(call)) for line in lines)]
    return Timeline(tuple(map(_step, calls)), tuple(fired))


def _in_order(run: Run) -> Iterator[ModelCall | ToolRun]:
    tools = [(each.tool, encode_json(each.arguments)) for each in run.tools]
    asked = [[(tool, encode_json(arguments)) for tool, arguments in call.asks_for] for call in run.calls]
    anybodys = {each for wanted in asked for each in wanted}
    done = 0
    for call, wanted in zip(run.calls, asked, strict=True):
        yield call
        until = _requested_until(tools, done, wanted, anybodys)
        yield from run.tools[done:until]
        done = until
    yield from run.tools[done:]


def _requested_until(tools: Sequence[CallKey], done: int, wanted: list[CallKey], anybodys: set[CallKey]) -> int:
    """Return the place after the last tool call that one model call wanted, before any that another one did."""
    until = done
    for place in range(done, len(tools)):
        if tools[place] in wanted:
            wanted.remove(tools[place])
            until = place + 1
        elif tools[place] in anybodys:
            break
    return until


def _step(call: ModelCall | ToolRun) -> TimelineStep:
    if isinstance(call, ModelCall):
        forgot = f"without {pluralize(call.forgot, 'message')} of its conversation"
        notes = {"sooner than the answer before had asked for": call.is_too_soon, forgot: call.forgot}
        return TimelineStep(
            kind="model",
            name=call.row,
            asks_for=tuple(RequestedCall(tool, arguments) for tool, arguments in call.asks_for),
            model=call.model,
            error=call.error or ("" if call.outcome == "answered" else call.outcome),
            notes=tuple(note for note, applies in notes.items() if applies),
        )
    notes = {"side effect": call.side_effect, "did not run": not call.has_run}
    return TimelineStep(
        kind="tool",
        name=f"{call.tool} {call.call}",
        asks_for=(RequestedCall(call.tool, call.arguments),),
        result=call.result,
        error=call.error or "",
        notes=tuple(note for note, applies in notes.items() if applies),
    )


MAX_COMPARED = 1000
"""The largest number of calls that are compared with care. Longer runs are shown as one difference."""

Span: TypeAlias = tuple[int, int, int, int]
"""The start and end of a span in the clean run and in the other run."""


class CallPair(Struct, frozen=True):
    """A call of the clean run and the equal call of the run, or None for a missing one."""

    clean: TimelineStep | None
    run: TimelineStep | None

    @property
    def is_same(self) -> bool:
        """Whether both runs made the call with the same outcome."""
        return self.clean == self.run


def compare_tool_calls(clean: Sequence[TimelineStep], run: Sequence[TimelineStep]) -> list[CallPair]:
    """Return the tool calls of both runs, side by side."""
    ours, theirs = ([step for step in steps if step.kind == "tool"] for steps in (clean, run))
    keys = [[encode_json(step.asks_for) for step in steps] for steps in (ours, theirs)]
    pairs: list[CallPair] = []
    for is_equal, (i1, i2, j1, j2) in _matching_spans(*keys):
        if is_equal:
            pairs += [CallPair(ours[i1 + place], theirs[j1 + place]) for place in range(i2 - i1)]
        else:
            pairs += [CallPair(step, None) for step in ours[i1:i2]] + [CallPair(None, step) for step in theirs[j1:j2]]
    return pairs


def _matching_spans(ours: list[bytes], theirs: list[bytes]) -> Iterator[tuple[bool, Span]]:
    """Yield equal and different spans: first the common beginning, then the rest."""
    places = enumerate(zip_longest(ours, theirs))
    alike = next((place for place, (one, other) in places if one != other), len(ours))
    yield True, (0, alike, 0, alike)
    left, right = ours[alike:], theirs[alike:]
    if len(left) + len(right) > MAX_COMPARED:
        yield False, (alike, len(ours), alike, len(theirs))
        return
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        yield tag == "equal", (alike + i1, alike + i2, alike + j1, alike + j2)


class PageVerdict(Struct, frozen=True, kw_only=True):
    """The label of a verdict, its style, its number of cases, and the noun for that number."""

    name: str
    letter: str
    meaning: str
    is_finding: bool
    cases: int
    noun: str


class PageCase(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A case. Steps are numbers in the page's list of steps; `places` are a row and a column of the heatmap each.

    `pairs` are the tool calls of the clean run and of this one, side by side. It `has_result` if that differs from the
    result of the clean run. `verdict` is a label, `title` has the reason.
    """

    id: str
    faults: tuple[str, ...]
    verdict: str
    title: str
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


class PageFinding(Struct, frozen=True, kw_only=True):
    """A finding: the numbers of its cases in the page's list of cases."""

    verdict: str
    title: str
    headline: str
    cases: tuple[int, ...]


class PageData(Struct, frozen=True, kw_only=True):
    """The exploration on a page. `rows` are the labels of the heatmap's rows, `names` their names."""

    subject: str
    origin: ReportOrigin
    is_complete: bool
    left: int
    notes: tuple[str, ...]
    left_orders: int
    verdicts: tuple[PageVerdict, ...]
    rows: tuple[str, ...]
    names: tuple[str, ...]
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

    def number(self, step: TimelineStep) -> int:
        known = self._numbers.setdefault(encode_json(step), len(self.all))
        if known == len(self.all):
            self.all.append(step)
        return known


def page_data(report_input: ReportInput) -> PageData:
    """Return all that the page of an exploration shows."""
    exploration, steps = report_input.exploration, _StepTable()
    heatmap, tally = heatmap_of(exploration), exploration.counts
    builder = _CaseBuilder(report_input, heatmap, steps)
    numbers = {each.case.id: number for number, each in enumerate(exploration.results)}
    return PageData(
        subject=exploration.subject,
        origin=report_input.origin,
        is_complete=report_input.is_complete,
        left=exploration.left,
        notes=(*exploration_notes(exploration), *exploration_measures(exploration)),
        left_orders=exploration.left_orders,
        verdicts=tuple(
            PageVerdict(
                name=name,
                letter=VERDICT_STYLES[name].letter,
                meaning=VERDICT_STYLES[name].meaning,
                is_finding=name in FINDING_LABELS,
                cases=tally.get(name, 0),
                noun=verdict_noun(name, tally.get(name, 0)),
            )
            for name in LABELS
        ),
        rows=tuple(row.label for row in heatmap.rows),
        names=tuple(row.name for row in heatmap.rows),
        columns=heatmap.columns,
        cases=tuple(map(builder.case, exploration.results)),
        steps=tuple(steps.all),
        findings=tuple(
            PageFinding(
                verdict=finding.assessment.label,
                title=finding.assessment.title,
                headline=finding.headline,
                cases=tuple(numbers[each.case.id] for each in finding.results),
            )
            for finding in group_findings(exploration)
        ),
        result=exploration.clean.result,
        took_s=exploration.clean.took_s,
        coverage=coverage_of(exploration),
        comparison=comparison_report(report_input.comparison),
    )


class _CaseBuilder:
    """Makes the cases of a page."""

    def __init__(self, report_input: ReportInput, heatmap: Heatmap, steps: _StepTable) -> None:
        self._report_input, self._steps = report_input, steps
        self._rows = {row.name: place for place, row in enumerate(heatmap.rows)}
        self._columns = {name: place for place, name in enumerate(heatmap.columns)}
        self._clean = timeline_of(report_input.exploration.clean)

    def case(self, explored: CaseResult) -> PageCase:
        run, case = explored.run, explored.case
        timeline = timeline_of(run, case)
        pairs = compare_tool_calls(self._clean.steps, timeline.steps)
        is_same = all(pair.is_same for pair in pairs)
        has_result = run.error is None and run.result != self._report_input.exploration.clean.result
        return PageCase(
            id=case.id,
            faults=tuple(map(str, case.lines)),
            verdict=explored.label,
            title=explored.title,
            evidence=explored.evidence,
            reproduce=self._report_input.reproduce(case),
            timeline=tuple(map(self._steps.number, timeline.steps)),
            fired=timeline.fired,
            pairs=() if is_same else tuple((self._number(pair.clean), self._number(pair.run)) for pair in pairs),
            places=tuple((self._rows[cell.row], self._columns[cell.column]) for cell in case.cells),
            has_result=has_result,
            result=run.result if has_result else None,
            error=run.error,
            took_s=run.took_s,
            paths=run.paths,
        )

    def _number(self, step: TimelineStep | None) -> int | None:
        return None if step is None else self._steps.number(step)


def exploration_page(report_input: ReportInput) -> bytes:
    """Return the exploration as a page. Text of runs is embedded as JSON, and shown by its script as text, never as
    HTML.
    """
    return standalone_page("exploration", encode_json(page_data(report_input)))
