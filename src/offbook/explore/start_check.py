"""Checks that forked runs of a program agree with fresh ones in real time, by making a few both ways."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Protocol, TypeVar, runtime_checkable

from offbook.explore.cases import FaultCase
from offbook.explore.run import Run
from offbook.explore.schedule import NO_BUDGET, CaseBudget
from offbook.faults import FaultPlan
from offbook.recording.match.continuation import Continuation

FEWEST_CASES = 10
"""The minimum number of cases for which some run both ways."""
FEWEST, MOST, SHARE = 3, 8, 0.05
TIME_SHARE = 0.1
"""The share of a time budget in which cases should run both ways; the wait is twice as long."""

Executed = TypeVar("Executed")


@runtime_checkable
class ForkingSubject(Protocol):
    """A subject whose runs are forked, or in virtual time, and can also start anew in real time."""

    @property
    def is_forked(self) -> bool: ...

    def run(self, plan: FaultPlan, continuation: Continuation = "stubborn") -> Run: ...

    def run_fresh(self, plan: FaultPlan, continuation: Continuation = "stubborn") -> Run:
        """Run it from the start of its interpreter."""
        ...

    def start_fresh(self, reason: str) -> None:
        """Start all further runs anew."""
        ...


def sample_of(cases: Sequence[FaultCase]) -> list[FaultCase]:
    """Return the cases to run both ways: the first of each fault type, at least three, and at most 5 % or eight.

    None has a fault that holds an answer back: a fresh run really waits for it, for up to minutes.
    """
    if len(cases) < FEWEST_CASES:
        return []
    first: dict[str, FaultCase] = {}
    for case in cases:
        first.setdefault("+".join(line.fault.type for line in case.lines), case)
    quick = [case for case in first.values() if not any("holds_back" in line.fault.traits for line in case.lines)]
    return quick[: min(MOST, max(FEWEST, int(len(cases) * SHARE)))]


def sample_budget(left_s: float | None, *, run_s: float) -> CaseBudget:
    """Return the number of cases to run both ways, and the time to wait for them: at least one case.

    It depends on the time left, and on the duration of a fresh run.
    """
    if left_s is None:
        return NO_BUDGET
    return CaseBudget(max(1, int(left_s * TIME_SHARE / max(run_s, 1e-3))), 2 * left_s * TIME_SHARE)


def check_starts(
    subject: object,
    cases: Sequence[FaultCase],
    execute: Callable[[FaultCase, bool], Executed],
    verdict_of: Callable[[Executed], str],
    *,
    budget: CaseBudget = NO_BUDGET,
) -> dict[str, Executed]:
    """Run a sample of the cases both ways. If a verdict differs, start all runs anew.

    `execute` runs a case, anew if its second argument is true. Returns the forked cases of the sample by id, which need
    not run again, or none if a verdict differs. A case that has not ended both ways in time is not compared, and
    continues.
    """
    if not isinstance(subject, ForkingSubject) or not subject.is_forked:
        return {}
    sample = sample_of(cases)[: budget.cases]
    pool = ThreadPoolExecutor(2)
    try:
        started = [(pool.submit(execute, case, False), pool.submit(execute, case, True)) for case in sample]
        wait([run for both in started for run in both], timeout=budget.time_s)
    finally:
        pool.shutdown(wait=budget.time_s is None, cancel_futures=True)
    ended = {}
    for case, (forked, fresh) in zip(sample, started, strict=True):
        if not forked.done() or not fresh.done() or forked.cancelled() or fresh.cancelled():
            continue
        verdict, other = verdict_of(forked.result()), verdict_of(fresh.result())
        if verdict != other:
            subject.start_fresh(f"{case} is {other!r} when started anew in real time, and {verdict!r} when forked")
            return {}
        ended[case.id] = forked.result()
    return ended
