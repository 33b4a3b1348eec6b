"""Runs every case of a subject and assesses the runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from functools import cached_property
from typing import Protocol

from msgspec import UNSET, Struct
from msgspec.structs import replace

from offbook.clock import SYSTEM_CLOCK, Clock
from offbook.errors import InputError
from offbook.explore.cases import FaultCase, HeatmapCell, OrderCases, cases_of, order_cases, probe_plan, require_case
from offbook.explore.causes import Discovery, QuietRule, discovery_of
from offbook.explore.judge import assess
from offbook.explore.noise import Noise, noise_between, state_noise
from offbook.explore.options import ExploreOptions, broken_invariants
from offbook.explore.pairs import Pairs, Waves, expected_cases
from offbook.explore.run import Run, named_calls, sites_of
from offbook.explore.schedule import (
    NO_DEADLINE,
    BudgetDeadline,
    CaseSchedule,
    LeftOutFault,
    LeftOutGroup,
    Pace,
    check_shard,
    in_case_order,
    left_out,
    left_out_groups,
    parse_budget,
    rows_near_effects,
    schedule,
)
from offbook.explore.sharing import KnownRuns, leading_ids
from offbook.explore.start_check import ForkingSubject, check_starts, sample_budget
from offbook.explore.verdict import FINDINGS, LABELS, Assessment, Reason, Verdict
from offbook.faults import FaultPlan, InjectedText, parse_fault
from offbook.faults.tools import call_in
from offbook.recording.match.continuation import CONTINUATIONS, Continuation


class CleanRunMismatchError(InputError):
    """The run without a fault sends an unrecorded request."""


class Subject(Protocol):
    """A subject that can be run. The first run is the clean run, without a fault."""

    name: str

    def run(self, plan: FaultPlan, continuation: Continuation = "stubborn") -> Run:
        """Run it from the start, isolated from other runs. Errors of the run itself are part of the Run.

        `continuation` answers unrecorded requests.
        """
        ...


def runs_of(subject: Subject, plan: FaultPlan, *, is_fresh: bool = False) -> tuple[Run, ...]:
    """Run a case: once and, after an unrecorded request, also with the other continuations.

    With `is_fresh`, a forking subject starts its runs anew.
    """
    run = subject.run_fresh if is_fresh and isinstance(subject, ForkingSubject) else subject.run
    runs = [run(plan)]
    while (continuation := next_continuation(runs)) is not None:
        runs.append(run(plan, continuation))
    return tuple(runs)


def with_noise(clean: Run, again: Run) -> Run:
    """Return the run without a fault with its noise: the differences when it is made `again`."""
    ended = (
        again.diverged or again.hung or ("" if again.error is None else f"{again.error.type}: {again.error.message}")
    )
    if ended:
        noise = Noise(problem=f"made again without a fault, the run failed, and verdicts may differ: {ended}")
    else:
        noise = noise_between(clean.result, again.result, now=SYSTEM_CLOCK.utc_now())
    if not ended and clean.state is not UNSET:
        of_state = state_noise(clean.state, again.state, now=SYSTEM_CLOCK.utc_now())
        clean = replace(clean, state=UNSET if of_state.problem else clean.state)
        noise = noise.with_others(of_state)
    return replace(clean, noise=noise) if noise else clean


_LATER = FaultPlan([parse_fault("since=1: slow 600")])


def _steps(run: Run) -> tuple[Counter[str], Counter[str]]:
    """Return the calls of a run and how they ended, and those of its tools."""
    calls = Counter(f"{call.row} {call.outcome}" for call in run.calls)
    return calls, Counter(f"{each.tool} {each.error}" for each in run.tools)


def next_continuation(runs: Sequence[Run]) -> Continuation | None:
    """Return the continuation of the next run of a case after these runs, or None if it needs no other run.

    The last one needs an instruction to obey.
    """
    if runs and runs[0].continuation != CONTINUATIONS[0]:
        return None
    following = next(iter(CONTINUATIONS[len(runs) :]), None)
    if following == "obedient" and not any(map(_asks_for_call, runs[0].fired)):
        return None
    return following


def _asks_for_call(line: str) -> bool:
    fault = parse_fault(line).fault
    return isinstance(fault, InjectedText) and call_in(fault.instruction_text) is not None


class CaseResult(Struct, frozen=True):
    """A case, its run, and the assessment of the run, the worst of several.

    `same_as` is the id of the case whose run it shares, or "" if it was run itself.
    """

    case: FaultCase
    run: Run
    assessment: Assessment
    same_as: str = ""

    @property
    def verdict(self) -> Verdict:
        return self.assessment.verdict

    @property
    def reason(self) -> Reason:
        """The finer kind of the verdict, in families that have several."""
        return self.assessment.reason

    @property
    def evidence(self) -> tuple[str, ...]:
        return self.assessment.evidence

    @property
    def label(self) -> str:
        """The verdict for symbols and counts."""
        return self.assessment.label

    @property
    def title(self) -> str:
        """The verdict with its reason."""
        return self.assessment.title

    @property
    def is_finding(self) -> bool:
        return self.verdict in FINDINGS

    @property
    def severity(self) -> int:
        """The rank of the verdict: 0 is the worst."""
        return self.assessment.severity


class Exploration(Struct, frozen=True):
    """The results of all cases of a subject, in order.

    `left_out` is what the budget left out, by fault, `left_groups` by group, and `not_tried` has the texts of those
    cases; an exploration that was loaded from a report does not have the texts. `left_orders` is the number of orders
    of calls that were too many to try. `elsewhere` are the cases of other shards. `discovery` says how the causes of
    the findings were found as cases were scheduled. A shard has the ids of all cases in that order, as `dealt`.
    """

    subject: str
    clean: Run
    results: tuple[CaseResult, ...] = ()
    left_out: tuple[LeftOutFault, ...] = ()
    left_groups: tuple[LeftOutGroup, ...] = ()
    not_tried: frozenset[str] = frozenset()
    left_orders: int = 0
    elsewhere: tuple[FaultCase, ...] = ()
    dealt: tuple[str, ...] = ()
    discovery: Discovery = Discovery()

    @property
    def left(self) -> int:
        """The number of cases that the budget left out."""
        return sum(each.cases for each in self.left_out)

    @property
    def shared(self) -> tuple[int, int]:
        """The number of cases that share runs, and the number of those runs."""
        sharing = [each for each in self.results if each.same_as]
        runs = len({each.same_as for each in sharing})
        return len(sharing) + runs, runs

    @property
    def findings(self) -> list[CaseResult]:
        """The results that show a defect, worst first."""
        found = [each for each in self.results if each.is_finding]
        return sorted(found, key=lambda each: each.severity)

    @property
    def counts(self) -> dict[str, int]:
        """The number of cases by label, worst first."""
        counts = {label: sum(each.label == label for each in self.results) for label in LABELS}
        return {label: count for label, count in counts.items() if count}

    @property
    def rows(self) -> list[str]:
        """The calls of the clean run, by their heatmap names. Tool calls are omitted if none can fail here."""
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


class ExecutedCase(Struct, frozen=True):
    """A case, its runs, and their total real time."""

    case: FaultCase
    runs: tuple[Run, ...]
    real_s: float


class CaseExecutor(Protocol):
    """Runs the cases of a subject, serially or in parallel, and yields them as they end.

    `workers` is the number of concurrent runs. The next case is taken from `cases` only when it starts. Cases still
    running at the deadline are ended, and not yielded, if they run in their own processes.
    """

    workers: int

    def run(self, cases: Iterable[FaultCase], deadline: BudgetDeadline = NO_DEADLINE) -> Iterator[ExecutedCase]: ...


def execute(subject: Subject, case: FaultCase, *, is_fresh: bool = False) -> ExecutedCase:
    """Run a case, and measure its duration."""
    start_s = SYSTEM_CLOCK.monotonic_s()
    runs = runs_of(subject, case.plan, is_fresh=is_fresh)
    return ExecutedCase(case, runs, SYSTEM_CLOCK.monotonic_s() - start_s)


class SerialExecutor:
    """Runs cases one by one in this thread. A started case ends by itself."""

    workers = 1

    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    def run(self, cases: Iterable[FaultCase], deadline: BudgetDeadline = NO_DEADLINE) -> Iterator[ExecutedCase]:
        for case in cases:
            if deadline.has_passed:
                return
            yield execute(self._subject, case)


_NESTED_LOOP = "asyncio.run() cannot be called from a running event loop"

RECOVERY_PATHS = ("retry", "fallback", "breaker open")


class Coverage(Struct, frozen=True):
    """The coverage of an exploration.

    `met` has the faults of each call, `missed` the calls without one, `never_ran` the recovery paths that no run took.
    """

    met: dict[str, list[str]]
    missed: list[str]
    paths: dict[str, int]
    never_ran: list[str]


def coverage_of(exploration: Exploration) -> Coverage:
    """Return the coverage of an exploration's cases."""
    met: dict[str, list[str]] = {row: [] for row in exploration.rows}
    paths = Counter[str]()
    for result in exploration.results:
        paths.update(result.run.paths)
        for cell in result.case.cells if result.verdict != "not reached" else ():
            met.setdefault(cell.row, []).append(cell.column)
    # Only offbook's own gateway shows fallbacks and breakers, and a program may have another one.
    visible = ("retry",) if exploration.clean.is_program else RECOVERY_PATHS
    return Coverage(
        met={row: faults for row, faults in met.items() if faults},
        missed=[row for row, faults in met.items() if not faults],
        paths=dict(sorted(paths.items())),
        never_ran=[path for path in visible if not paths[path]],
    )


OnBegin = Callable[[Exploration, int], object]
OnCase = Callable[[CaseResult], object]


class Explorer:
    """Explores a subject, or a shard of its cases.

    Cases run in the order of the schedule, and are reported in their own order. With pairs, a shard also runs the
    single faults of others, because these runs determine the pairs.

    Args:
        executor: runs the cases; serially by default.
        pace: measures how long cases take.
        clock: measures a time budget.
        start_s: the start of that time, by this clock; now by default.
        on_begin: called before the first case, with the clean run and the number of cases.
        on_case: called with each result, in the order in which the cases run.

    Raises:
        InputError: the budget is invalid, or is a time for a shard; from `clean`, `cases` and `explore`, if the run
            fails even without a fault.
    """

    def __init__(
        self,
        subject: Subject,
        options: ExploreOptions,
        *,
        executor: CaseExecutor | None = None,
        pace: Pace | None = None,
        clock: Clock = SYSTEM_CLOCK,
        start_s: float | None = None,
        on_begin: OnBegin = lambda *_: None,
        on_case: OnCase = lambda _: None,
    ) -> None:
        self._subject, self._options = subject, options
        self._executor, self._pace = executor or SerialExecutor(subject), pace or Pace()
        self._on_begin, self._on_case = on_begin, on_case
        self._budget = parse_budget(options.budget)
        check_shard(self._budget, options.shard, until_quiet=options.until_quiet)
        self._clock = clock
        self._deadline = BudgetDeadline(self._budget.time_s, clock, start_s=start_s)
        self._clean: Run | None = None
        self._known, self._quiet = KnownRuns(), QuietRule(options.until_quiet)
        self._dealt: tuple[str, ...] = ()
        self._own_ids, self._shown = set[str](), 0
        self._sampled: dict[str, ExecutedCase] = {}

    @property
    def has_time(self) -> bool:
        """Whether a budget of time is not over: the subject can still be run."""
        return not self._deadline.has_passed

    @property
    def clean(self) -> Run:
        """The run without a fault, made on first access, and once more before the first case."""
        self._clean = self._clean or self._run_clean()
        return self._clean

    def _run_clean(self) -> Run:
        start_s = SYSTEM_CLOCK.monotonic_s()
        run = self._subject.run(FaultPlan())
        problem = self._problem_of(run)
        subject = self._subject
        if problem and isinstance(subject, ForkingSubject) and subject.is_forked:
            fresh = subject.run_fresh(FaultPlan())
            if not self._problem_of(fresh):
                subject.start_fresh(f"it fails otherwise, without any fault: {problem}")
                run, problem = fresh, ""
        self._pace.clean_s = SYSTEM_CLOCK.monotonic_s() - start_s
        if problem:
            hint = "an exploration starts from a run that succeeds: record it again, or fix it first"
            if _NESTED_LOOP in problem:
                hint = "the function runs in an event loop: make it async, or return the coroutine instead"
            kind = CleanRunMismatchError if run.diverged else InputError
            raise kind(f"the run fails without any fault: {problem}", source=self._subject.name, hint=hint)
        if not run.calls and not run.tools:
            hint = "let it use the provider, or the base URL in OPENAI_BASE_URL and its like, or try --intercept"
            raise InputError("the run made no call that could fail", source=self._subject.name, hint=hint)
        self._options.check_optional(named_calls(run))
        return run

    def _problem_of(self, run: Run) -> str:
        """Return why a run without a fault failed, or ""."""
        ended = "" if run.error is None else f"{run.error.type}: {run.error.message}"
        broken = [*run.broken, *broken_invariants(run, self._options.invariants)]
        return run.diverged or ended or run.hung or next(iter(broken), "")

    @cached_property
    def cases(self) -> list[FaultCase]:
        """Every case with a single fault, and every order of calls, regardless of the budget; at least one."""
        cases = [*self._single_faults, *self._orders.cases]
        require_case(cases, self._options.variants)
        return cases

    @cached_property
    def _single_faults(self) -> list[FaultCase]:
        return cases_of(sites_of(self.clean), self._options.variants)

    @cached_property
    def _orders(self) -> OrderCases:
        """Return the orders in which calls can end, if they are tried. A run shows which calls overlap."""
        is_wanted = any(variant.needs_overlap for variant in self._options.variants)
        overlaps = self._subject.run(probe_plan(self.clean)).overlaps if is_wanted else ()
        return order_cases(self.clean, overlaps, first_number=len(self._single_faults) + 1)

    @property
    def affordable(self) -> tuple[list[FaultCase], int]:
        """The single faults that a number as a budget allows, in a shard its own ones, and the approximate number of
        pairs.
        """
        single, pairs = expected_cases(self._schedule(), self._pairs(), most=self._budget.cases)
        return in_case_order(self._own(single, self.cases), lambda case: case), pairs

    def explore(self, only: Sequence[FaultCase] | None = None) -> Exploration:
        """Run the subject once without a fault, and then with each case, or only with those of `only`."""
        if only is not None:
            self._own_ids, self._pace.cases = {case.id for case in only}, len(only)
            self._pace.expect(only, self._executor.workers)
            self._known.expect(only)
            self._begin(only)
            places = {case.id: place for place, case in enumerate(only)}
            return self._exploration(only, sorted(self._run(only), key=lambda result: places[result.case.id]))
        planned, pairs = self._schedule(), self._pairs()
        waves = Waves(planned, pairs, most=self._budget.cases)
        self._own_ids = {case.id for case in self._own(self.cases, self.cases)}
        self._known.expect(self.cases)
        self._expect([], waves)
        self._begin(planned.within(self._budget.cases))
        results = in_case_order(self._run_waves(waves, pairs), lambda result: result.case)
        self._dealt = tuple(case.id for case in waves.dealt)
        elsewhere = [case for case in waves.dealt if case.id not in self._own_ids]
        exploration = self._exploration([*self.cases, *pairs.cases], results, elsewhere)
        return replace(exploration, left_orders=self._orders.left)

    def _run_waves(self, waves: Waves, pairs: Pairs) -> Iterator[CaseResult]:
        """Run the dealt cases until none or no time is left, and yield the results of this shard."""
        while wave := waves.deal():
            new = self._own([case for case in wave if case.group == "pairs"], pairs.cases)
            self._own_ids.update(case.id for case in new)
            run = [case for case in wave if self._is_own(case) or (pairs.are_wanted and case.group != "pairs")]
            self._expect(run, waves)
            has_run = False
            alone, others = self._known.split(run)
            with closing(self._run_or_share(alone, others)) as results:
                for each in self._quiet.limit([case.id for case in (*alone, *others)], results):
                    has_run = True
                    if each.case.group != "pairs":
                        pairs.add(each.case, each.run, is_finding=each.is_finding)
                    if self._is_own(each.case):
                        yield each
            if self._deadline.has_passed or self._quiet.is_over or (run and not has_run):
                return

    def _is_own(self, case: FaultCase) -> bool:
        """Return whether it is a case of this shard. Others run if pairs depend on them, and are not reported."""
        return case.id in self._own_ids

    def _own(self, cases: Sequence[FaultCase], among: Sequence[FaultCase]) -> list[FaultCase]:
        """Return the cases of this shard; those `among` all cases that may share a run are in one shard."""
        shard = self._options.shard
        if shard is None:
            return list(cases)
        ids = leading_ids(among)
        return [case for case in cases if shard.has(ids[case.id])]

    def _pairs(self) -> Pairs:
        variants = self._options.variants if self._options.pairs else ()
        return Pairs(self.clean, variants, first_number=len(self.cases) + 1)

    def _begin(self, planned: Sequence[FaultCase]) -> None:
        """Begin to run cases. The cases `planned` in all shards decide whether runs are forked."""
        self._pace.deadline = self._deadline
        if planned and self._deadline.allows(self._pace.clean_s):
            self._clean = self._with_noise(self.clean)
        self._on_begin(Exploration(self._subject.name, self.clean), self._pace.cases)
        self._sampled = check_starts(
            self._subject,
            planned,
            lambda case, is_fresh: execute(self._subject, case, is_fresh=is_fresh),
            lambda executed: self._worst(executed.runs)[1].title,
            budget=sample_budget(self._deadline.left_s, run_s=self._pace.clean_s),
        )

    def _with_noise(self, clean: Run) -> Run:
        """Return the run without a fault, with its noise: the differences when it is made again.

        The answers of the second run come slightly later, so that its times and durations differ as well, even under a
        virtual clock. A run that cannot bear this, such as one with a tight timeout, is made again like the first.
        """
        later = self._subject.run(_LATER)
        noisy = with_noise(clean, later)
        is_same = _steps(later) == _steps(clean) and not (noisy.noise and noisy.noise.problem)
        return noisy if is_same else with_noise(clean, self._subject.run(FaultPlan()))

    def _expect(self, cases: Sequence[FaultCase], waves: Waves) -> None:
        """Expect these cases now, and those that may be dealt after them."""
        others, pairs = waves.to_come()
        if self._options.shard is not None:
            others = [case for case in others if self._options.pairs or self._is_own(case)]
            pairs //= self._options.shard.count
        self._pace.expect([*cases, *others], self._executor.workers, pairs=pairs)
        self._pace.cases = self._shown + pairs + sum(map(self._is_own, [*cases, *others]))

    def _exploration(
        self, cases: Sequence[FaultCase], results: Sequence[CaseResult], elsewhere: Sequence[FaultCase] = ()
    ) -> Exploration:
        tried = [*(each.case for each in results), *elsewhere]
        ids = {case.id for case in tried}
        return Exploration(
            self._subject.name,
            self.clean,
            tuple(results),
            left_out=left_out(cases, tried),
            left_groups=left_out_groups(cases, tried),
            not_tried=frozenset(str(case) for case in cases if case.id not in ids),
            elsewhere=tuple(elsewhere),
            dealt=self._dealt if self._options.shard else (),
            discovery=discovery_of(results, self._dealt, stopped_after=self._quiet.stopped_after),
        )

    def _schedule(self) -> CaseSchedule:
        return schedule(self.cases, rows_near_effects(self.clean))

    def _run_or_share(self, alone: Sequence[FaultCase], others: Sequence[FaultCase]) -> Generator[CaseResult]:
        """Run the cases, then those of the `others` that share no run with them."""
        yield from self._run(alone)
        different = []
        for case in others:
            shared = self._known.find(case)
            if shared is None:
                different.append(case)
            else:
                yield self._assess(ExecutedCase(case, shared.runs, 0.0), same_as=shared.of)
        yield from self._run(different)

    def _run(self, cases: Iterable[FaultCase]) -> Iterator[CaseResult]:
        left = []
        for case in cases:
            if case.id in self._sampled:
                yield self._note(self._sampled[case.id])
            else:
                left.append(case)
        in_time = (case for case in left if self._deadline.allows(self._pace.expected_s(case)))
        executed = self._executor.run(in_time, self._deadline)
        try:
            yield from map(self._note, executed)
        finally:
            if isinstance(executed, Generator):  # stop what is still running if a callback raises
                executed.close()

    def _note(self, executed: ExecutedCase) -> CaseResult:
        self._known.add(executed.case, executed.runs)
        return self._assess(executed)

    def _assess(self, executed: ExecutedCase, *, same_as: str = "") -> CaseResult:
        """Return the worst of the runs of a case, and report it unless it is another shard's."""
        run, assessment = self._worst(executed.runs)
        result = CaseResult(executed.case, run, assessment, same_as)
        self._pace.note(executed.case, None if same_as else executed.real_s)
        if self._is_own(executed.case):
            self._shown += 1
            start_s = self._clock.monotonic_s()
            self._on_case(result)
            # The last reports may have twice as many cases as any before, and take twice as long.
            self._deadline.keep_for_closing(2 * (self._clock.monotonic_s() - start_s))
        return result

    def _worst(self, runs: Iterable[Run]) -> tuple[Run, Assessment]:
        options = self._options
        assessed = [
            (
                run,
                assess(
                    run,
                    self.clean,
                    invariants=options.invariants,
                    optional=options.optional,
                    gave_up=options.gave_up,
                    max_recovery_calls=options.max_recovery_calls,
                ),
            )
            for run in runs
        ]
        return min(assessed, key=lambda each: each[1].severity)
