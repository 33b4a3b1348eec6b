"""Executors of a subject's cases: sequential, in threads, or in forked processes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import islice
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from msgspec import Struct

from offbook.clock import SYSTEM_CLOCK
from offbook.explore.cases import FaultCase
from offbook.explore.explorer import CaseExecutor, ExecutedCase, SerialExecutor, Subject, execute, next_continuation
from offbook.explore.isolation import wait_for_any
from offbook.explore.run import Run
from offbook.explore.schedule import NO_DEADLINE, BudgetDeadline
from offbook.subjects.forked_run import IsolatedSubject, StartedRun


@runtime_checkable
class StoppableSubject(Subject, Protocol):
    """A subject whose runs can be ended from outside: a program."""

    def stop(self) -> None:
        """End the current runs, and later ones."""
        ...


MANY_CASES = 100
"""The number of cases that justifies another worker of a program, which loads its libraries first."""


class ThreadExecutor:
    """Runs several cases concurrently in threads. At a deadline it stops the subject.

    After many cases, `spare` more run: processors are idle while a program waits for its answer, and the server for the
    next call.
    """

    def __init__(self, subject: StoppableSubject, workers: int, *, spare: int = 0) -> None:
        self._subject, self.workers, self._spare = subject, workers, spare
        self._count = 0

    def run(self, cases: Iterable[FaultCase], deadline: BudgetDeadline = NO_DEADLINE) -> Iterator[ExecutedCase]:
        waiting, started = self._counted(cases), list[Future[ExecutedCase]]()
        with ThreadPoolExecutor(self.workers + self._spare) as pool:
            try:
                while True:
                    while started and started[0].done():
                        yield started.pop(0).result()
                    running = [each for each in started if not each.done()]
                    at_once = self.workers + (self._spare if self._count >= MANY_CASES else 0)
                    free = islice(waiting, at_once - len(running))
                    new = [pool.submit(execute, self._subject, case) for case in free]
                    started, running = started + new, running + new
                    if not started:
                        return
                    if running and not wait(running, timeout=deadline.left_s, return_when=FIRST_COMPLETED).done:
                        ended = [each.result() for each in started if each.done()]
                        self._subject.stop()
                        yield from ended
                        return
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                self._subject.stop()
                raise

    def _counted(self, cases: Iterable[FaultCase]) -> Iterator[FaultCase]:
        for case in cases:
            self._count += 1
            yield case


class _StartedCase:
    """A case in progress: its ended runs, and the present one."""

    def __init__(self, subject: IsolatedSubject, case: FaultCase) -> None:
        self._subject, self._case = subject, case
        self._start_s = SYSTEM_CLOCK.monotonic_s()
        self.executed: ExecutedCase | None = None
        self._runs: list[Run] = []
        self._current: StartedRun | None = None
        self._start_next()

    @property
    def current(self) -> StartedRun | None:
        """The run in progress, or None if the case has ended."""
        return self._current

    def advance(self) -> None:
        """Collect the run if it has ended, and start the next one, if the case needs another."""
        if self._current is not None and self._current.process.poll():
            self._runs.append(self._subject.finish(self._current))
            self._start_next()

    def kill(self) -> None:
        if self._current is not None:
            self._current.process.kill()

    def _start_next(self) -> None:
        continuation = next_continuation(self._runs)
        self._current = None if continuation is None else self._subject.start(self._case.plan, continuation)
        if self._current is None:
            self.executed = ExecutedCase(self._case, tuple(self._runs), SYSTEM_CLOCK.monotonic_s() - self._start_s)


class ForkExecutor:
    """Runs several cases concurrently, each run in a forked process. All processes are forked from this thread."""

    def __init__(self, subject: IsolatedSubject, workers: int) -> None:
        self._subject, self.workers = subject, workers

    def run(self, cases: Iterable[FaultCase], deadline: BudgetDeadline = NO_DEADLINE) -> Iterator[ExecutedCase]:
        waiting = iter(cases)
        started: list[_StartedCase] = []
        try:
            while True:
                free = self.workers - sum(case.current is not None for case in started)
                started += (_StartedCase(self._subject, case) for case in islice(waiting, free))
                while started and (executed := started[0].executed) is not None:
                    started.pop(0)
                    yield executed
                if not started:
                    return
                if not _wait(started, limit_s=deadline.left_s):
                    yield from [case.executed for case in started if case.executed is not None]
                    return
        finally:
            for case in started:
                case.kill()


def _wait(started: Sequence[_StartedCase], *, limit_s: float | None) -> bool:
    """Wait until the run of one of the cases has ended, and return whether one has."""
    has_ended = wait_for_any([case.current.process for case in started if case.current is not None], limit_s=limit_s)
    for case in started:
        case.advance()
    return has_ended


class RayAddress(Struct, frozen=True):
    """The cluster at a URL; without one, that which RAY_ADDRESS names, or this machine."""

    url: str = ""


Workers: TypeAlias = int | Literal["auto"]
AnyWorkers: TypeAlias = Workers | RayAddress


def worker_count(workers: Workers) -> int:
    """Return a number of workers; `auto` is one for each core."""
    return (os.cpu_count() or 1) if workers == "auto" else workers


def executor_of(subject: Subject, workers: Workers) -> CaseExecutor:
    """Return the executor for `workers` concurrent cases of a subject; `auto` is one for each core.

    Programs are separate processes, so threads suffice for them. For many cases of a program, `auto` is one more: a
    processor is idle while a call or its answer is in transit.
    """
    count = worker_count(workers)
    if isinstance(subject, IsolatedSubject):
        return ForkExecutor(subject, count)
    if isinstance(subject, StoppableSubject):
        return ThreadExecutor(subject, count, spare=int(workers == "auto"))
    return SerialExecutor(subject)
