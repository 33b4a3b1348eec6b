"""Running something on a stage, to its end or to a deadline, and telling what it did."""

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

from offbook.clock import run
from offbook.errors import (
    AgentError,
    AllProvidersFailedError,
    BudgetExceededError,
    DeadlineExceededError,
    StepError,
    StreamInterruptedError,
)
from offbook.explore.run import Ending, Run
from offbook.explore.scrubbing import scrubbed
from offbook.explore.stage import Stage
from offbook.explore.witness import EndlessRunError
from offbook.recording.json_form import json_form

T = TypeVar("T")

GIVEN_UP = (
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


USUAL = Deadlines()


class TooLateError(BaseException):
    """A run that does not end. No agent may catch it, so it is no Exception."""


class Watch:
    """Watches one run on a stage, and tells what it did.

    `declared` are the classes of errors, or their names, that the run is said to raise.
    """

    def __init__(
        self, stage: Stage, *, declared: Sequence[type[BaseException] | str] = (), deadlines: Deadlines = USUAL
    ) -> None:
        self._stage, self._declared, self._deadlines = stage, tuple(declared), deadlines
        self._took_s = 0.0

    def seen(self, play: Callable[[], Any]) -> Run:
        """What the run did that `play` makes. Nothing that it raises comes through, except interrupts."""
        result, error, hung = None, None, ""
        try:
            with alarm(self._deadlines.real_s):
                result = play()
        except (EndlessRunError, TooLateError) as endless:
            hung = str(endless)
        except Exception as raised:
            error = self._ending(raised)
        except BaseExceptionGroup as group:
            hung = _endless(group)
        stage = self._stage
        return Run(
            result=json_form(result).value,
            error=error,
            calls=stage.calls,
            tools=stage.tool_runs,
            struck=stage.struck,
            diverged=stage.diverged[0] if stage.diverged else "",
            hung=hung,
            took_s=round(self._took_s, 6),
            paths=dict(sorted(stage.path_count.paths.items())),
        )

    def to_its_end(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` in virtual time, whose seconds count. Raises TooLateError when they are too many."""
        return run(self._in_time(work), virtual_time=True)

    async def _in_time(self, work: Coroutine[Any, Any, T]) -> T:
        loop = asyncio.get_running_loop()
        limit_s = self._deadlines.virtual_s
        try:
            async with asyncio.timeout(limit_s) as limit:
                return await work
        except TimeoutError:
            if limit.expired():
                raise TooLateError(f"it had not ended after {limit_s:g} s") from None
            raise
        finally:
            self._took_s += loop.time()

    def _ending(self, error: Exception) -> Ending:
        inner = _first(error)
        names = {kind.__name__ for kind in type(inner).__mro__}
        is_declared = isinstance(inner, GIVEN_UP) or any(
            each in names if isinstance(each, str) else isinstance(inner, each) for each in self._declared
        )
        return Ending("declared" if is_declared else "undeclared", type(inner).__name__, scrubbed(str(inner)))


class Performance:
    """Runs `work` on stages. `declared` are the classes of errors, or their names, that it is said to raise."""

    def __init__(
        self,
        work: Callable[[Stage], Any],
        *,
        declared: Sequence[type[BaseException] | str] = (),
        deadlines: Deadlines = USUAL,
    ) -> None:
        self._work, self._declared, self._deadlines = work, tuple(declared), deadlines

    def run(self, stage: Stage) -> Run:
        """What the work did on this stage. Nothing that it raises comes through, except interrupts."""
        watch = Watch(stage, declared=self._declared, deadlines=self._deadlines)
        return watch.seen(lambda: watch.to_its_end(self._played(stage)))

    async def _played(self, stage: Stage) -> Any:
        given = self._work(stage)
        return await given if isawaitable(given) else given


def _endless(group: BaseExceptionGroup[BaseException]) -> str:
    """Why a run does not end that has several tasks. Raises the group if it tells nothing of that."""
    endless = group.subgroup((EndlessRunError, TooLateError))
    if endless is None:
        raise group
    return str(_first(endless))


def _first(error: BaseException) -> BaseException:
    """The error, or the first in a group of several."""
    return _first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


@contextmanager
def alarm(limit_s: float) -> Iterator[None]:
    """Raise TooLateError in what takes longer than `limit_s` of real time; only the main thread can be stopped so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(_: int, __: FrameType | None) -> None:
        raise TooLateError(f"it had not ended after {limit_s:g} s of real time")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
