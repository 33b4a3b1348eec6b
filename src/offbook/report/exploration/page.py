"""An exploration as an HTML page, and the data that it shows: the timeline of each run beside the clean one, too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from offbook.explore.cases import FaultCase
from offbook.explore.compare import Coverage, coverage_of
from offbook.explore.explorer import CaseResult
from offbook.explore.run import ModelCall, Run, RunFailure, ToolRun
from offbook.explore.verdict import FINDING_LABELS, LABELS
from offbook.faults import Site, ToolSite
from offbook.messages import JsonObject
from offbook.report.exploration.heatmap import VERDICT_STYLES, heatmap_of
from offbook.report.exploration.json_report import ComparisonReport, comparison_report
from offbook.report.exploration.report_input import (
    FindingGroup,
    ReportInput,
    ReportOrigin,
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

    `name` is the one that pictures have for it. Of a model, `asks_for` are the tools that it asks for; of a tool,
    that is the call itself. `notes` tell what else is worth knowing of it.
    """

    kind: Literal["model", "tool"]
    name: str
    asks_for: tuple[RequestedCall, ...] = ()
    model: str = ""
    result: str = ""
    error: str = ""
    notes: tuple[str, ...] = ()


class Timeline(Struct, frozen=True):
    """The steps of a run, and the places among them, from 0, at which a fault fired."""

    steps: tuple[TimelineStep, ...]
    fired: tuple[int, ...] = ()


def timeline_of(run: Run, case: FaultCase | None = None) -> Timeline:
    """The timeline of a run; with the case that it is of, also where its faults fired.

    A run keeps its calls of models and those of tools apart, each in order. A call of a tool is put behind the call
    of a model that asked for it, and one that nobody asked for before the next that somebody did.
    """
    calls = list(_in_order(run))
    lines = case.lines if case is not None and run.fired else ()
    fired = [place for place, call in enumerate(calls) if any(line.at.covers(_site(call)) for line in lines)]
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
    """The place behind those of the tools to come that one call of a model wanted: up to one that another did."""
    until = done
    for place in range(done, len(tools)):
        if tools[place] in wanted:
            wanted.remove(tools[place])
            until = place + 1
        elif tools[place] in anybodys:
            break
    return until


def _site(call: ModelCall | ToolRun) -> Site | ToolSite:
    if isinstance(call, ToolRun):
        return ToolSite(call.tool, call.call)
    return Site("", call.step_id, call.step_call, call.number, call.attempt)


def _model_notes(call: ModelCall) -> Iterator[str]:
    if call.is_too_soon:
        yield "sooner than the answer before had asked for"
    if call.forgot:
        yield f"without {pluralize(call.forgot, 'message')} of its conversation"


def _tool_notes(call: ToolRun) -> Iterator[str]:
    if call.side_effect:
        yield "side effect"
    if not call.has_run:
        yield "did not run"


def _failure(call: ModelCall) -> str:
    return call.error or ("" if call.outcome == "answered" else call.outcome)


def _step(call: ModelCall | ToolRun) -> TimelineStep:
    if isinstance(call, ModelCall):
        asked = tuple(RequestedCall(tool, arguments) for tool, arguments in call.asks_for)
        notes = tuple(_model_notes(call))
        return TimelineStep(
            kind="model", name=call.row, asks_for=asked, model=call.model, error=_failure(call), notes=notes
        )
    return TimelineStep(
        kind="tool",
        name=f"{call.tool} {call.call}",
        asks_for=(RequestedCall(call.tool, call.arguments),),
        result=call.result,
        error=call.error or "",
        notes=tuple(_tool_notes(call)),
    )


MAX_COMPARED = 1000
"""How many calls are laid side by side with care; longer runs are shown as one difference."""

Span: TypeAlias = tuple[int, int, int, int]
"""Where a piece begins and ends in the clean run, and in the other."""


class CallPair(Struct, frozen=True):
    """A call of the clean run beside the same one of the run; None where one of them did not make it."""

    clean: TimelineStep | None
    run: TimelineStep | None

    @property
    def is_same(self) -> bool:
        """Whether it was called by both, and gave the same."""
        return self.clean == self.run


def compare_tool_calls(clean: Sequence[TimelineStep], run: Sequence[TimelineStep]) -> list[CallPair]:
    """The calls of tools of both runs, side by side."""
    ours, theirs = ([step for step in steps if step.kind == "tool"] for steps in (clean, run))
    pairs: list[CallPair] = []
    for is_equal, (i1, i2, j1, j2) in _matching_spans(
        [_call_key(step) for step in ours], [_call_key(step) for step in theirs]
    ):
        if is_equal:
            pairs += [CallPair(ours[i1 + place], theirs[j1 + place]) for place in range(i2 - i1)]
        else:
            pairs += [CallPair(step, None) for step in ours[i1:i2]] + [CallPair(None, step) for step in theirs[j1:j2]]
    return pairs


def _matching_spans(ours: list[bytes], theirs: list[bytes]) -> Iterator[tuple[bool, Span]]:
    """The pieces that are equal or not: first what both begin with, then the rest."""
    places = enumerate(zip_longest(ours, theirs))
    alike = next((place for place, (one, other) in places if one != other), len(ours))
    yield True, (0, alike, 0, alike)
    left, right = ours[alike:], theirs[alike:]
    if len(left) + len(right) > MAX_COMPARED:
        yield False, (alike, len(ours), alike, len(theirs))
        return
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        yield tag == "equal", (alike + i1, alike + i2, alike + j1, alike + j2)


def _call_key(step: TimelineStep) -> bytes:
    return encode_json(step.asks_for)


class PageVerdict(Struct, frozen=True):
    """The label of a verdict, how it is shown, how many cases have it, and the noun for so many."""

    name: str
    letter: str
    meaning: str
    is_finding: bool
    cases: int
    noun: str


class PageCase(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A case. Steps are numbers in the page's list of steps; `places` are a row and a column of the heatmap each.

    `pairs` are the calls of tools of the clean run beside those of this one. `result` is there if it is another one
    than that of the clean run. `verdict` is a label, `title` has the reason.
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


class PageFinding(Struct, frozen=True):
    """A finding: the numbers of its cases in the page's list of cases."""

    verdict: str
    title: str
    headline: str
    cases: tuple[int, ...]


class PageData(Struct, frozen=True, kw_only=True):
    """An exploration, as its page has it. `rows` are what the rows of its heatmap are about, `names` their names."""

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
        origin=report_input.origin,
        is_complete=report_input.is_complete,
        left=exploration.left,
        notes=tuple(exploration_notes(exploration)),
        left_orders=exploration.left_orders,
        verdicts=tuple(_page_verdict(name, tally.get(name, 0)) for name in LABELS),
        rows=tuple(row.label for row in heatmap.rows),
        names=tuple(rows),
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
            verdict=explored.label,
            title=explored.title,
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


def _page_verdict(name: str, cases: int) -> PageVerdict:
    sign = VERDICT_STYLES[name]
    return PageVerdict(name, sign.letter, sign.meaning, name in FINDING_LABELS, cases, verdict_noun(name, cases))


def _page_findings(findings: Iterable[FindingGroup], explored: Sequence[CaseResult]) -> Iterable[PageFinding]:
    numbers = {each.case.id: number for number, each in enumerate(explored)}
    for finding in findings:
        cases = tuple(numbers[each.case.id] for each in finding.results)
        yield PageFinding(finding.assessment.label, finding.assessment.title, finding.headline, cases)


def exploration_page(report_input: ReportInput) -> bytes:
    """The exploration as a page. What runs said is in it as JSON; its script shows it as text, never as HTML."""
    return standalone_page("exploration", encode_json(page_data(report_input)))
