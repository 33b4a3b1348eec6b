"""Runs a function on a harness until it ends or misses its deadline, and reports the run."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from inspect import isawaitable
from types import FrameType
from typing import Any, TypeVar

from offbook.clock import run, time_limit
from offbook.errors import (
    AgentError,
    AllProvidersFailedError,
    BudgetExceededError,
    DeadlineExceededError,
    StepError,
    StreamInterruptedError,
)
from offbook.explore.harness import Harness
from offbook.explore.observers import EndlessRunError
from offbook.explore.options import DEFAULT_DEADLINES, Deadlines
from offbook.explore.run import Run, RunFailure, normalize_text
from offbook.recording.format.tool_exchange import json_form

T = TypeVar("T")

GAVE_UP_ERRORS = (
    AgentError,
    AllProvidersFailedError,
    BudgetExceededError,
    DeadlineExceededError,
    StepError,
    StreamInterruptedError,
)
"""Errors of offbook itself which say that it has tried and given up. They are always declared."""


class RunDeadlineError(BaseException):
    """A run exceeds its deadline. It is not an Exception, so that no agent catches it."""


class RunMonitor:
    """Runs something on a harness once, and reports what it did.

    `declared` are the errors that the run is expected to raise when it gives up, as classes or names.
    """

    def __init__(
        self,
        harness: Harness,
        *,
        declared: Sequence[type[BaseException] | str] = (),
        deadlines: Deadlines = DEFAULT_DEADLINES,
    ) -> None:
        self._harness, self._declared, self._deadlines = harness, tuple(declared), deadlines
        self._took_s = 0.0

    def observe(self, work: Callable[[], Any]) -> Run:
        """Call `work` and report the run. What it raises is part of the report; only interrupts are raised."""
        result, error, hung = None, None, ""
        try:
            with real_time_limit(self._deadlines.real_s):
                result = work()
        except (EndlessRunError, RunDeadlineError) as endless:
            hung = str(endless)
        except Exception as raised:
            error = self._failure(raised)
        except BaseExceptionGroup as group:
            hung = _hang_reason(group)
        harness = self._harness
        return Run(
            result=json_form(result).value,
            error=error,
            calls=harness.calls,
            tools=harness.tool_runs,
            fired=harness.fired,
            diverged=harness.diverged[0] if harness.diverged else "",
            hung=hung,
            took_s=round(self._took_s, 6),
            paths=dict(sorted(harness.recovery_counter.paths.items())),
        )

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` in virtual time. Raises RunDeadlineError when it takes too long by that time."""
        return run(self._in_time(work), virtual_time=True)

    async def _in_time(self, work: Coroutine[Any, Any, T]) -> T:
        loop = asyncio.get_running_loop()
        limit_s = self._deadlines.virtual_s
        try:
            async with time_limit(limit_s, lambda s: RunDeadlineError(f"it had not ended after {s:g} s")):
                return await work
        finally:
            self._took_s += loop.time()

    def _failure(self, error: Exception) -> RunFailure:
        inner = _first_error(error)
        names = {kind.__name__ for kind in type(inner).__mro__}
        is_declared = isinstance(inner, GAVE_UP_ERRORS) or any(
            each in names if isinstance(each, str) else isinstance(inner, each) for each in self._declared
        )
        return RunFailure("declared" if is_declared else "undeclared", type(inner).__name__, normalize_text(str(inner)))


class MonitoredFunction:
    """A function that takes a harness, sync or async. `declared` are the errors it raises when it gives up."""

    def __init__(
        self,
        work: Callable[[Harness], Any],
        *,
        declared: Sequence[type[BaseException] | str] = (),
        deadlines: Deadlines = DEFAULT_DEADLINES,
    ) -> None:
        self._work, self._declared, self._deadlines = work, tuple(declared), deadlines

    def run(self, harness: Harness) -> Run:
        """Run the function on this harness and report the run. Only interrupts are raised."""
        monitor = RunMonitor(harness, declared=self._declared, deadlines=self._deadlines)
        return monitor.observe(lambda: monitor.run(self._call(harness)))

    async def _call(self, harness: Harness) -> Any:
        result = self._work(harness)
        return await result if isawaitable(result) else result


def _hang_reason(group: BaseExceptionGroup[BaseException]) -> str:
    """Return why a run with several tasks does not end. Raises the group if that is not what it is about."""
    endless = group.subgroup((EndlessRunError, RunDeadlineError))
    if endless is None:
        raise group
    return str(_first_error(endless))


def _first_error(error: BaseException) -> BaseException:
    """Return the error, or the first one of a group."""
    return _first_error(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


@contextmanager
def real_time_limit(limit_s: float) -> Iterator[None]:
    """Raise RunDeadlineError in a block that takes longer than `limit_s` of real time, in the main thread only."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(_: int, __: FrameType | None) -> None:
        raise RunDeadlineError(f"it had not ended after {limit_s:g} s of real time")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
