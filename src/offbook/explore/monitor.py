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

from msgspec import Struct

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
"""The errors by which offbook's own parts say that they have tried and given up: declared everywhere."""


class Deadlines(Struct, frozen=True):
    """How long a run may take: `virtual_s` by its own clock, `real_s` by the wall's."""

    virtual_s: float = 3600.0
    real_s: float = 30.0


DEFAULT_DEADLINES = Deadlines()


class RunDeadlineError(BaseException):
    """A run that does not end. No agent may catch it, so it is no Exception."""


class RunMonitor:
    """Watches one run on a harness, and tells what it did.

    `declared` are the classes of errors, or their names, that the run is said to raise.
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

    def seen(self, play: Callable[[], Any]) -> Run:
        """What the run did that `play` makes. Nothing that it raises comes through, except interrupts."""
        result, error, hung = None, None, ""
        try:
            with real_time_limit(self._deadlines.real_s):
                result = play()
        except (EndlessRunError, RunDeadlineError) as endless:
            hung = str(endless)
        except Exception as raised:
            error = self._ending(raised)
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
        """Run `work` in virtual time, whose seconds count. Raises TooLateError when they are too many."""
        return run(self._in_time(work), virtual_time=True)

    async def _in_time(self, work: Coroutine[Any, Any, T]) -> T:
        loop = asyncio.get_running_loop()
        limit_s = self._deadlines.virtual_s
        try:
            async with time_limit(limit_s, lambda s: RunDeadlineError(f"it had not ended after {s:g} s")):
                return await work
        finally:
            self._took_s += loop.time()

    def _ending(self, error: Exception) -> RunFailure:
        inner = _first_error(error)
        names = {kind.__name__ for kind in type(inner).__mro__}
        is_declared = isinstance(inner, GAVE_UP_ERRORS) or any(
            each in names if isinstance(each, str) else isinstance(inner, each) for each in self._declared
        )
        return RunFailure("declared" if is_declared else "undeclared", type(inner).__name__, normalize_text(str(inner)))


class MonitoredFunction:
    """Runs `work` on harnesses. `declared` are the classes of errors, or their names, that it is said to raise."""

    def __init__(
        self,
        work: Callable[[Harness], Any],
        *,
        declared: Sequence[type[BaseException] | str] = (),
        deadlines: Deadlines = DEFAULT_DEADLINES,
    ) -> None:
        self._work, self._declared, self._deadlines = work, tuple(declared), deadlines

    def run(self, harness: Harness) -> Run:
        """What the work did on this harness. Nothing that it raises comes through, except interrupts."""
        watch = RunMonitor(harness, declared=self._declared, deadlines=self._deadlines)
        return watch.seen(lambda: watch.run(self._played(harness)))

    async def _played(self, harness: Harness) -> Any:
        given = self._work(harness)
        return await given if isawaitable(given) else given


def _hang_reason(group: BaseExceptionGroup[BaseException]) -> str:
    """Why a run does not end that has several tasks. Raises the group if it tells nothing of that."""
    endless = group.subgroup((EndlessRunError, RunDeadlineError))
    if endless is None:
        raise group
    return str(_first_error(endless))


def _first_error(error: BaseException) -> BaseException:
    """The error, or the first in a group of several."""
    return _first_error(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


@contextmanager
def real_time_limit(limit_s: float) -> Iterator[None]:
    """Raise TooLateError in what takes longer than `limit_s` of real time; only the main thread can be stopped so."""
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
