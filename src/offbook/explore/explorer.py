"""Runs every case of a subject and assesses the runs."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from functools import cached_property
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from offbook.errors import InputError
from offbook.explore.cases import FaultCase, HeatmapCell, cases_of, most_telling, pairs_of
from offbook.explore.options import ExploreOptions
from offbook.explore.run import ExploredSite, Run, sites_of
from offbook.explore.verdict import FINDINGS, VERDICTS, Assessment, Verdict, assess, broken_invariants
from offbook.faults import FaultPlan, PlannedFault
from offbook.recording.match.continuation import CONTINUATIONS, Continuation
from offbook.text import did_you_mean


class Subject(Protocol):
    """Something that can be run. The first run is the clean run, without a fault."""

    name: str

    def run(self, plan: FaultPlan, continuation: Continuation = "stubborn") -> Run:
        """Run it from the start, isolated from other runs. What the run itself raises is part of the Run.

        `continuation` answers requests that were never recorded.
        """
        ...


def runs_of(subject: Subject, plan: FaultPlan) -> tuple[Run, ...]:
    """Run a case: once, and if a request was never recorded, also with the other continuations."""
    runs = [subject.run(plan)]
    while (continuation := next_continuation(runs)) is not None:
        runs.append(subject.run(plan, continuation))
    return tuple(runs)


def next_continuation(runs: Sequence[Run]) -> Continuation | None:
    """Return with which continuation a case is run next, after these runs; None if it needs no other run."""
    if runs and runs[0].continuation != CONTINUATIONS[0]:
        return None
    return next(iter(CONTINUATIONS[len(runs) :]), None)


def named_calls(clean: Run) -> set[str]:
    """Return the steps and tools of a clean run. Without others, no run can go on."""
    return {call.step_id for call in clean.calls if call.step_id} | {each.tool for each in clean.tools}


PAIRED_FAULTS = ("connection_reset", "http_error 500", "timeout", "tool_error", "tool_lost")
"""The faults that are tried as the second of a pair: the most likely ones."""


class CaseResult(Struct, frozen=True):
    """A case, its run, and the assessment of the run. If it was run several times, it is the worst one."""

    case: FaultCase
    run: Run
    assessment: Assessment

    @property
    def verdict(self) -> Verdict:
        return self.assessment.verdict

    @property
    def evidence(self) -> tuple[str, ...]:
        return self.assessment.evidence

    @property
    def is_finding(self) -> bool:
        return self.verdict in FINDINGS

    @property
    def severity(self) -> int:
        """The rank of the verdict: 0 is the worst."""
        return self.assessment.severity


class Exploration(Struct, frozen=True):
    """The results of all cases of a subject, in order. `left` is how many cases the budget left out."""

    subject: str
    clean: Run
    results: tuple[CaseResult, ...] = ()
    left: int = 0

    @property
    def findings(self) -> list[CaseResult]:
        """The results that show a defect, worst first."""
        found = [each for each in self.results if each.is_finding]
        return sorted(found, key=lambda each: each.severity)

    @property
    def counts(self) -> dict[Verdict, int]:
        """The number of cases by verdict, worst first."""
        counts = {verdict: sum(each.verdict == verdict for each in self.results) for verdict in VERDICTS}
        return {verdict: count for verdict, count in counts.items() if count}

    @property
    def rows(self) -> list[str]:
        """The calls of the clean run, as the heatmap names them; those of tools only if they can fail here."""
        has_tools = any(line.at.tool is not None for each in self.results for line in each.case.lines)
        is_partial = bool(self.left) or not self.results
        return [site.row for site in sites_of(self.clean) if has_tools or is_partial or not site.is_tool]

    @property
    def columns(self) -> list[str]:
        """The faults that were tried, as the heatmap names them."""
        return list(dict.fromkeys(cell.column for each in self.results for cell in each.case.cells))

    def at(self, row: str, column: str) -> CaseResult | None:
        """Return the result at a cell of the heatmap."""
        return next((each for each in self.results if HeatmapCell(row, column) in each.case.cells), None)


class CaseExecutor(Protocol):
    """Runs the cases of a subject, serially or in parallel. The runs of each case come in the order of the cases."""

    def run(self, cases: Sequence[FaultCase]) -> Iterator[tuple[Run, ...]]: ...


class SerialExecutor:
    """Runs cases one after the other in this thread."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    def run(self, cases: Sequence[FaultCase]) -> Iterator[tuple[Run, ...]]:
        for case in cases:
            yield runs_of(self._subject, case.plan)


OnBegin = Callable[[Exploration, int], object]
OnCase = Callable[[CaseResult], object]


class Explorer:
    """Explores a subject.

    Args:
        executor: runs the cases; serially by default.
        on_begin: called before the first case, with the clean run and the number of cases.
        on_case: called with each result.

    Raises:
        InputError: from `clean`, `cases` and `explore`, if the run fails even without a fault.
    """

    def __init__(
        self,
        subject: Subject,
        options: ExploreOptions,
        *,
        executor: CaseExecutor | None = None,
        on_begin: OnBegin = lambda *_: None,
        on_case: OnCase = lambda _: None,
    ) -> None:
        self._subject, self._options = subject, options
        self._executor = executor or SerialExecutor(subject)
        self._on_begin, self._on_case = on_begin, on_case

    @cached_property
    def clean(self) -> Run:
        """The run without a fault, made on first access."""
        run = self._subject.run(FaultPlan())
        problem = _clean_run_problem(run) or next(iter(broken_invariants(run, self._options.invariants)), "")
        if problem:
            hint = "an exploration starts from a run that succeeds: record it again, or fix it first"
            raise InputError(f"the run fails without any fault: {problem}", source=self._subject.name, hint=hint)
        if not run.calls and not run.tools:
            hint = "it does not use the base URL or the provider that it is given, or makes no calls"
            raise InputError("the run made no call that could fail", source=self._subject.name, hint=hint)
        names = named_calls(run)
        for name in sorted(self._options.optional - names):
            hint = did_you_mean(name, names, kind="steps and tools")
            raise InputError(f"there is no step or tool {name!r}", source="optional", hint=hint)
        return run

    @cached_property
    def cases(self) -> list[FaultCase]:
        """Every case with a single fault, regardless of the budget."""
        return cases_of(sites_of(self.clean), self._options.variants)

    def explore(self, only: Sequence[FaultCase] | None = None) -> Exploration:
        """Run the subject once without a fault, and then with each case, or only with those of `only`."""
        cases = most_telling(self.cases, self._options.budget) if only is None else only
        self._on_begin(Exploration(self._subject.name, self.clean), len(cases))
        results = list(self._assess(cases, self.clean))
        if only is not None:
            return Exploration(self._subject.name, self.clean, tuple(results))
        pairs = self._pairs_after(results) if self._options.pairs else []
        affordable = self._number(pairs, len(results))
        results += self._assess(affordable, self.clean)
        left = len(self.cases) - len(cases) + len(pairs) - len(affordable)
        return Exploration(self._subject.name, self.clean, tuple(results), left)

    def _assess(self, cases: Sequence[FaultCase], clean: Run) -> Iterator[CaseResult]:
        executed = self._executor.run(cases)
        try:
            for case, runs in zip(cases, executed, strict=True):
                result = min((self._result(case, run, clean) for run in runs), key=lambda each: each.severity)
                self._on_case(result)
                yield result
        finally:
            if isinstance(executed, Generator):  # stop what is still running if a callback raises
                executed.close()

    def _result(self, case: FaultCase, run: Run, clean: Run) -> CaseResult:
        options = self._options
        assessment = assess(run, clean, invariants=options.invariants, optional=options.optional)
        return CaseResult(case, run, assessment)

    def _pairs_after(self, singles: list[CaseResult]) -> list[tuple[PlannedFault, ...]]:
        """Return all pairs of faults: the second at a site that the run with the first one reached afterwards."""
        variants = [variant for variant in self._options.variants if variant.name in PAIRED_FAULTS]
        known: dict[frozenset[str], tuple[PlannedFault, ...]] = {}
        for single in singles:
            for lines in pairs_of(single.case, _sites_after(single), variants):
                known.setdefault(frozenset(str(line) for line in lines), lines)
        return list(known.values())

    def _number(self, pairs: Sequence[tuple[PlannedFault, ...]], before: int) -> list[FaultCase]:
        room = None if self._options.budget is None else max(0, self._options.budget - before)
        return [FaultCase(f"{before + place:04}", lines, ()) for place, lines in enumerate(pairs[:room], 1)]


def _sites_after(single: CaseResult) -> list[ExploredSite]:
    """Return the sites that a run with a fault reached after the fault."""
    sites = sites_of(single.run)
    lines = [replace(line.at, chunk=None) for line in single.case.lines]
    fired = [place for place, site in enumerate(sites) if site.at in lines or replace(site.at, attempt=None) in lines]
    return sites[fired[-1] + 1 :] if fired else []


def _clean_run_problem(run: Run) -> str:
    if run.error is not None:
        return f"{run.error.type}: {run.error.message}"
    return run.hung or run.diverged or next(iter(run.broken), "")
