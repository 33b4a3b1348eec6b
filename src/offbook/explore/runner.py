"""Runs and judges every case of a subject."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from functools import cached_property
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from offbook.errors import InputError
from offbook.explore.cases import FaultCase, HeatmapCell, cases_of, pairs_of
from offbook.explore.run import Run
from offbook.explore.sites import ExploredSite, sites_of
from offbook.explore.variants import FaultVariant
from offbook.explore.verdict import FINDINGS, VERDICTS, Assessment, Invariant, Verdict, assess, broken_invariants
from offbook.faults import FaultPlan, PlannedFault


class Subject(Protocol):
    """Something that can be run. The first run is without a fault: the clean one."""

    name: str

    def run(self, plan: FaultPlan) -> Run:
        """Run it from its beginning, isolated from other runs. Never raises what the run itself raises."""
        ...


PAIRED_FAULTS = ("connection_reset", "http_error 500", "timeout", "tool_error", "tool_lost")
"""The second faults that are tried in pairs: those that a run is most likely to meet."""


class CaseResult(Struct, frozen=True):
    """A case that was run: what the run did, and the verdict on it."""

    case: FaultCase
    run: Run
    assessment: Assessment

    @property
    def verdict(self) -> Verdict:
        return self.assessment.verdict

    @property
    def is_finding(self) -> bool:
        return self.verdict in FINDINGS


class Exploration(Struct, frozen=True):
    """What became of all cases of a subject, in the order of the cases. `left` is how many a budget has left out."""

    subject: str
    clean: Run
    results: tuple[CaseResult, ...] = ()
    left: int = 0

    @property
    def findings(self) -> list[CaseResult]:
        """What tells of a defect, worst first."""
        found = [each for each in self.results if each.is_finding]
        return sorted(found, key=lambda each: VERDICTS.index(each.verdict))

    @property
    def counts(self) -> dict[Verdict, int]:
        """How many cases have which verdict, worst first."""
        counts = {verdict: sum(each.verdict == verdict for each in self.results) for verdict in VERDICTS}
        return {verdict: count for verdict, count in counts.items() if count}

    @property
    def rows(self) -> list[str]:
        """The calls of the clean run, as a picture names them."""
        return [site.row for site in sites_of(self.clean)]

    @property
    def columns(self) -> list[str]:
        """The faults that were tried, as a picture names them."""
        return list(dict.fromkeys(cell.column for each in self.results for cell in each.case.cells))

    def at(self, row: str, column: str) -> CaseResult | None:
        """What was explored at a cell of the picture."""
        return next((each for each in self.results if HeatmapCell(row, column) in each.case.cells), None)


class ExploreOptions(Struct, frozen=True, kw_only=True):
    """What is to be explored: which faults, whether in pairs too, how many cases at most, and what must hold always."""

    variants: Sequence[FaultVariant]
    pairs: bool = False
    budget: int | None = None
    invariants: Sequence[Invariant] = ()


class CaseExecutor(Protocol):
    """Runs cases of a subject, one after the other or several at once; the results come in the order of the cases."""

    def run(self, cases: Sequence[FaultCase]) -> Iterator[Run]: ...


class SerialExecutor:
    """Runs cases one after the other, right here."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    def run(self, cases: Sequence[FaultCase]) -> Iterator[Run]:
        for case in cases:
            yield self._subject.run(case.plan)


OnBegin = Callable[[Exploration, int], object]
OnCase = Callable[[CaseResult], object]


class Explorer:
    """Explores a subject.

    Args:
        on_begin: told of the clean run and of how many cases there are, before the first.
        on_case: told of each case when it is judged.

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
        """The run without a fault, made when it is first asked for."""
        run = self._subject.run(FaultPlan())
        problem = _clean_run_problem(run) or next(iter(broken_invariants(run, self._options.invariants)), "")
        if problem:
            hint = "an exploration starts from a run that is fine: record it again, or mend it first"
            raise InputError(f"the run fails without any fault: {problem}", source=self._subject.name, hint=hint)
        if not run.calls and not run.tools:
            hint = "it is not led to the stand-in, or asks nothing"
            raise InputError("the run made no call that could fail", source=self._subject.name, hint=hint)
        return run

    @cached_property
    def cases(self) -> list[FaultCase]:
        """Every case of a single fault that the options asks for, whatever the budget."""
        return cases_of(sites_of(self.clean), self._options.variants)

    def explore(self, only: Sequence[FaultCase] | None = None) -> Exploration:
        """Run the subject once without a fault, and then with each case, or with those given alone."""
        cases = self.cases[: self._options.budget] if only is None else only
        self._on_begin(Exploration(self._subject.name, self.clean), len(cases))
        explored = list(self._judged(cases, self.clean))
        if only is not None:
            return Exploration(self._subject.name, self.clean, tuple(explored))
        if self._options.pairs:
            explored += self._pairs(explored, self.clean)
        return Exploration(self._subject.name, self.clean, tuple(explored), len(self.cases) - len(cases))

    def _judged(self, cases: Sequence[FaultCase], clean: Run) -> Iterator[CaseResult]:
        runs = self._executor.run(cases)
        try:
            for case, run in zip(cases, runs, strict=True):
                explored = CaseResult(case, run, assess(run, clean, invariants=self._options.invariants))
                self._on_case(explored)
                yield explored
        finally:
            if isinstance(runs, Generator):  # what still runs is to end, if who is told of a case wants no more
                runs.close()

    def _pairs(self, singles: list[CaseResult], clean: Run) -> list[CaseResult]:
        """Two faults: the second where the run with the first came by afterwards."""
        known: dict[frozenset[str], tuple[PlannedFault, ...]] = {}
        for single in singles:
            behind = _sites_after(single)
            for lines in pairs_of(
                single.case, behind, [variant for variant in self._options.variants if variant.name in PAIRED_FAULTS]
            ):
                known.setdefault(frozenset(str(line) for line in lines), lines)
        return list(self._judged(self._numbered(list(known.values()), len(singles)), clean))

    def _numbered(self, pairs: Sequence[tuple[PlannedFault, ...]], before: int) -> list[FaultCase]:
        room = None if self._options.budget is None else max(0, self._options.budget - before)
        return [FaultCase(f"{before + place:04}", lines, ()) for place, lines in enumerate(pairs[:room], 1)]


def _sites_after(single: CaseResult) -> list[ExploredSite]:
    """The sites that a run with a fault came by after the fault."""
    sites = sites_of(single.run)
    lines = [replace(line.at, chunk=None) for line in single.case.lines]
    fired = [place for place, site in enumerate(sites) if site.at in lines or replace(site.at, attempt=None) in lines]
    return sites[fired[-1] + 1 :] if fired else []


def _clean_run_problem(run: Run) -> str:
    if run.error is not None:
        return f"{run.error.type}: {run.error.message}"
    return run.hung or run.diverged or next(iter(run.broken), "")
