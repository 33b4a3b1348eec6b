"""Runs a function on a harness until it ends or misses its deadline, and reports the run and its lines of code."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import sysconfig
import threading
from collections.abc import Callable, Collection, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from inspect import isawaitable
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any, NoReturn, TypeVar

import msgspec
from msgspec import UNSET, Struct

from offbook.clock import run, time_limit
from offbook.decoding import decode_msgpack
from offbook.errors import AgentError, BudgetExceededError, ProviderError, StepError
from offbook.explore.harness import CleanScript, Harness, HarnessFactory
from offbook.explore.isolation import CaseProcess
from offbook.explore.observer import EndlessRunError, RaisingHost
from offbook.explore.options import DEFAULT_DEADLINES, Deadlines
from offbook.explore.run import ErrorKind, Run, RunFailure, error_text, is_api_error, normalize_text
from offbook.explore.state import State, with_state
from offbook.faults import FaultPlan
from offbook.faults.order import run_task
from offbook.recording.format.exchange import json_form
from offbook.recording.match.continuation import Continuation
from offbook.session.injector import refuse_crash
from offbook.tools.effects import collect_effects

_FOREIGN_FOLDERS = tuple(
    f"{Path(folder).resolve()}/"
    for folder in (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), str(Path(__file__).parents[1]))
)
_INSTALLED = ("site-packages", "dist-packages")


@lru_cache(maxsize=4096)
def is_own_file(file: str) -> bool:
    """Return whether a file belongs to the agent, not to offbook, the standard library or an installed package."""
    if file.startswith("<"):
        return not file.startswith("<frozen")
    path = Path(file).resolve()
    return not str(path).startswith(_FOREIGN_FOLDERS) and not any(part in _INSTALLED for part in path.parts)


def is_own_module(module: ModuleType) -> bool:
    """Return whether a module belongs to the agent. A module without a file is built in, or made by a program."""
    if module.__name__.partition(".")[0] in sys.stdlib_module_names:
        return False
    file = getattr(module, "__file__", None)
    return module.__name__ == "__main__" or (file is not None and is_own_file(file))


def gives_up(error: type[BaseException], declared: Collection[object]) -> bool:
    """Return whether a run that ends with an undeclared error has given up: an error of an API that escapes.

    As long as nothing is `declared`, so is an error whose class is the agent's own, which raises it on purpose.
    """
    module = sys.modules.get(error.__module__)
    is_own = not declared and module is not None and is_own_module(module)
    return is_own or is_api_error(error.__module__, error.__name__)


def place_of(frame: FrameType | None, *, inside: CodeType) -> str:
    """Return the innermost line of the agent's own code that leads to `frame`, like `desk.py:41 answer`, or "".

    Only calls from `inside` count. If none of them is the agent's, the event loop waits, and the place is where the
    first task waits in the agent's code.
    """
    while frame is not None and frame.f_code is not inside:
        if is_own_file(frame.f_code.co_filename):
            return _text(frame.f_code, frame.f_lineno)
        frame = frame.f_back
    return _waiting_place()


def _waiting_place() -> str:
    try:
        tasks = sorted(asyncio.all_tasks(), key=lambda task: (len(task.get_name()), task.get_name()))
    except RuntimeError:  # no event loop runs in this thread
        return ""
    return next(filter(None, (_innermost_place(task.get_coro()) for task in tasks)), "")


def _innermost_place(awaited: Any) -> str:
    """Return the innermost place of the agent's own code in a chain of awaits, or ""."""
    place = ""
    while awaited is not None:
        frame = getattr(awaited, "cr_frame", None) or getattr(awaited, "ag_frame", None)
        if frame is not None and is_own_file(frame.f_code.co_filename):
            place = _text(frame.f_code, frame.f_lineno)
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "ag_await", None)
    return place


def _text(code: CodeType, line: int | None) -> str:
    return f"{Path(code.co_filename).name}:{line} {code.co_name}"


_DUMPED_LINE = re.compile(r'^  File "(.+)", line (\d+) in (.+)$', re.MULTILINE)


def place_in_dump(dump: str, *, inside: CodeType) -> str:
    """Return the place from a faulthandler dump, innermost line first, like `place_of`."""
    for file, line, function in _DUMPED_LINE.findall(dump):
        if (file, function) == (inside.co_filename, inside.co_name):
            break
        if is_own_file(file):
            return f"{Path(file).name}:{line} {function}"
    return ""


T = TypeVar("T")

GAVE_UP_ERRORS = (AgentError, BudgetExceededError, ProviderError, StepError)
"""Errors of offbook itself which say that it has given up. They are always declared."""


class RunDeadlineError(BaseException):
    """A run exceeds its deadline. It is not an Exception, because agents catch those."""


class CaseReport(Struct, frozen=True, kw_only=True):
    """The report of a case's process: its run, or why there is none.

    `modules` are loaded modules outside the agent's own code. The clean run also reports its `script`. `notes` are the
    subject's own.
    """

    run: Run | None = None
    notes: dict[str, str] = {}
    script: CleanScript | None = None
    modules: tuple[str, ...] = ()
    refusal: dict[str, str] | None = None
    error: str = ""

    def to_bytes(self) -> bytes:
        try:
            return msgspec.msgpack.encode(self)
        except UnicodeEncodeError:  # a text has half a surrogate pair
            return msgspec.msgpack.encode(_readable(msgspec.to_builtins(self, builtin_types=(bytes,))))

    @classmethod
    def from_bytes(cls, data: bytes) -> CaseReport:
        return decode_msgpack(data, cls)


def _readable(value: Any) -> Any:
    """Return a value with replacement characters for invalid text in its strings."""
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, dict):
        return {_readable(key): _readable(each) for key, each in value.items()}
    return [_readable(each) for each in value] if isinstance(value, list | tuple) else value


class Life:
    """The life of a run that cannot crash. Restartable subjects have other lives."""

    def crash(self, run: Run) -> NoReturn:
        """End the process at a planned crash, with the run so far."""
        refuse_crash()

    def finish(self, run: Run) -> Run:
        """Return the run to report."""
        return run


ONLY_LIFE = Life()


class RunMonitor(RaisingHost):
    """Runs work on a harness once, and reports it: the host of the run.

    `declared` are the errors of a run that gives up, as classes or names.

    In a case's process, a late run ends the process, which it cannot catch. Elsewhere it gets a RunDeadlineError. The
    `life` of the run handles crashes in its plan, and the report.
    """

    def __init__(
        self,
        harnesses: HarnessFactory,
        plan: FaultPlan,
        continuation: Continuation = "stubborn",
        *,
        declared: Sequence[type[BaseException] | str] = (),
        deadlines: Deadlines = DEFAULT_DEADLINES,
        life: Life = ONLY_LIFE,
    ) -> None:
        self._declared, self._deadlines, self._life = tuple(declared), deadlines, life
        self._took_s = 0.0
        self._case: CaseProcess | None = None
        self.harness = harnesses.create(plan, continuation, self, answer_s=deadlines.answer_s)

    def crash(self) -> NoReturn:
        self._life.crash(self._run())

    def end_endless(self, reason: str) -> NoReturn:
        if self._case is not None:
            self._end_late(self._case, reason, "the last came from")
        super().end_endless(reason)

    def end_hung(self, reason: str) -> NoReturn:
        if self._case is not None:
            self._end_late(self._case, reason)
        super().end_hung(reason)

    def _end_late(self, case: CaseProcess, text: str, doing: str = "it waited in") -> NoReturn:
        """Report an endless run with the agent's current line, and end the process of its case."""
        place = place_of(sys._getframe(), inside=RunMonitor._observe.__code__)  # noqa: SLF001
        self._end(case, hung=f"{text}; {doing} {place}" if place else text)

    def _end(self, case: CaseProcess, **fields: Any) -> NoReturn:
        case.report(CaseReport(run=self._run(**fields)).to_bytes())

    def observe(self, work: Callable[[], Any]) -> Run:
        """Call `work` and report the run, including its errors and sys.exit.

        Interrupts are raised, except in a case's process, where the run itself has made them.
        """
        if CaseProcess.current is None:
            return self._observe(work)
        with self._ending(CaseProcess.current):
            return self._observe(work)

    def _observe(self, work: Callable[[], Any]) -> Run:
        result, error, hung = None, None, ""
        try:
            with real_time_limit(self._deadlines.real_s), collect_effects() as self.harness.reported:
                result = work()
        except BaseException as raised:
            hung = _hang_reason(raised)
            is_of_run = isinstance(raised, Exception | SystemExit | asyncio.CancelledError)
            if not hung and CaseProcess.current is None and not is_of_run:
                raise
            error = None if hung else self._failure(raised)
        finally:
            self.harness.end_interceptions()
        return self._run(result=json_form(result).value, error=error, hung=hung)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` in virtual time. Raises RunDeadlineError when it exceeds its limit in that time."""
        return run(self._in_time(work), virtual_time=True)

    async def _in_time(self, work: Coroutine[Any, Any, T]) -> T:
        loop = asyncio.get_running_loop()
        limit_s, started_s = self._deadlines.virtual_s, loop.time()
        run_task.set(asyncio.current_task())
        try:
            async with time_limit(limit_s, lambda s: RunDeadlineError(_late_text(f"{s:g} s"))):
                return await work
        finally:
            self._took_s += loop.time() - started_s

    @contextmanager
    def _ending(self, case: CaseProcess) -> Iterator[None]:
        """Report and end this process when the run is late, makes too many calls or calls os._exit."""
        # An agent may catch any error, even a BaseException, and an error that a timer raises inside native code never
        # arrives. So the run is reported and the process ended from wherever it is found out. os._exit is replaced
        # because a process that ends by it would report nothing.
        virtual_s, real_s = self._deadlines.virtual_s, self._deadlines.real_s

        exit_process = os._exit

        def exit_now(status: int) -> NoReturn:
            if case.is_copy:
                exit_process(status)
            self._end(case, error=RunFailure("undeclared", PROCESS_ENDED, exit_text(status & 0xFF)))

        self._case, os._exit = case, exit_now
        case.call_at(real_s, lambda: self._end_late(case, _late_text(f"{real_s:g} s of real time")))
        case.clock.call_at(virtual_s, lambda: self._end_late(case, _late_text(f"{virtual_s:g} s")))
        try:
            yield
        finally:
            self._case, os._exit = None, exit_process
            case.end_deadlines()

    def _run(self, *, result: Any = None, error: RunFailure | None = None, hung: str = "") -> Run:
        harness, case = self.harness, CaseProcess.current
        run = Run(
            result=result,
            error=error,
            calls=harness.calls,
            tools=harness.tool_runs,
            fired=harness.fired,
            diverged=next(iter(harness.diverged), ""),
            continuation=harness.continuation,
            hung=hung,
            effects=harness.effects,
            unseen=harness.unseen,
            declarations=harness.declarations,
            marks=harness.marks,
            overlaps=harness.overlaps,
            unknown_reads=harness.unknown_reads or UNSET,
            reached=harness.reached,
            took_s=round(self._took_s if case is None else case.clock.passed_s, 6),
            paths=harness.recovery_paths,
        )
        return self._life.finish(run)

    def _failure(self, error: BaseException) -> RunFailure:
        inner = _first_error(error)
        declared_as = next(filter(None, (_name_if(inner, each) for each in self._declared)), "")
        was_cancelled = isinstance(inner, asyncio.CancelledError) and self.harness.was_cancelled
        is_declared = was_cancelled or isinstance(inner, GAVE_UP_ERRORS) or declared_as
        gave_up = gives_up(type(inner), self._declared)
        kind: ErrorKind = "declared" if is_declared else "gave up" if gave_up else "undeclared"
        message = _exit_call(inner) if isinstance(inner, SystemExit) else error_text(inner)
        return RunFailure(kind, type(inner).__name__, message, declared_as)


PROCESS_ENDED = "ProcessEnded"
"""The type of the failure of a run that ended its process."""


def exit_text(code: int | None) -> str:
    """Return how a process ended by its exit code, which is -N for signal N, and None if unknown."""
    if code is None:
        return "the process ended"
    return f"signal {-code} ended the process" if code < 0 else f"the process ended with exit status {code}"


def _exit_call(error: SystemExit) -> str:
    try:
        code = "" if error.code is None else repr(error.code)
    except Exception:
        code = f"<{type(error.code).__name__}>"
    return normalize_text(f"it called sys.exit({code})")


def _late_text(limit: str) -> str:
    return f"it had not ended after {limit}"


def killed_text(deadlines: Deadlines, dump: str) -> str:
    """Return why a run hung whose process had to be killed, with the place in its stack dump."""
    text = _late_text(f"{deadlines.real_s:g} s of real time")
    place = place_in_dump(dump, inside=RunMonitor._observe.__code__)  # noqa: SLF001
    return f"{text}; it waited in {place}" if place else text


def _name_if(error: BaseException, declared: type[BaseException] | str) -> str:
    """Return the name of a declared class if the error is of it or of a subclass; else ""."""
    if isinstance(declared, str):
        return declared if any(declared == kind.__name__ for kind in type(error).__mro__) else ""
    return declared.__name__ if isinstance(error, declared) else ""


class MonitoredFunction:
    """A function of a harness, sync or async. `declared` are the errors with which it gives up.

    `state` returns the state after a run.
    """

    def __init__(
        self,
        work: Callable[[Harness], Any],
        *,
        declared: Sequence[type[BaseException] | str] = (),
        deadlines: Deadlines = DEFAULT_DEADLINES,
        state: State | None = None,
    ) -> None:
        self.work, self._declared, self._deadlines, self._state = work, tuple(declared), deadlines, state

    def run(
        self,
        harnesses: HarnessFactory,
        plan: FaultPlan,
        continuation: Continuation = "stubborn",
        *,
        life: Life = ONLY_LIFE,
    ) -> Run:
        """Run the function on the next harness and report the run, like a RunMonitor. Only interrupts are raised."""
        monitor = RunMonitor(
            harnesses, plan, continuation, declared=self._declared, deadlines=self._deadlines, life=life
        )
        observed = monitor.observe(lambda: monitor.run(self._call(monitor.harness)))
        return observed if self._state is None else with_state(observed, self._state)

    async def _call(self, harness: Harness) -> Any:
        result = self.work(harness)
        return await result if isawaitable(result) else result


def _hang_reason(error: BaseException) -> str:
    """Return why a run does not end, according to its error or one in a group, or ""."""
    group = error if isinstance(error, BaseExceptionGroup) else BaseExceptionGroup("", [error])
    endless = group.subgroup((EndlessRunError, RunDeadlineError))
    return "" if endless is None else str(_first_error(endless))


def _first_error(error: BaseException) -> BaseException:
    """Return the error, or the first one of a group."""
    return _first_error(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


@contextmanager
def real_time_limit(limit_s: float) -> Iterator[None]:
    """Raise RunDeadlineError in a block that exceeds `limit_s` of real time, only in the main thread.

    The process of a case has its own alarm.
    """
    if CaseProcess.current is not None or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(_: int, __: FrameType | None) -> None:
        raise RunDeadlineError(_late_text(f"{limit_s:g} s of real time"))

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
