"""One run of an explored test's function in a forked process, with its report in pytest."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable, Sequence
from functools import partial
from inspect import iscoroutinefunction, signature
from io import StringIO
from traceback import StackSummary, TracebackException
from typing import Any, ClassVar

import pytest
from msgspec import Struct
from msgspec.structs import replace

from offbook.explore.harness import HarnessFactory
from offbook.explore.isolation import CaseProcess
from offbook.explore.monitor import RunMonitor
from offbook.explore.run import Run
from offbook.explore.schedule import BudgetDeadline, parse_budget
from offbook.explore.state import with_state
from offbook.faults import FaultPlan
from offbook.pytest_plugin.backend import record_again_hint
from offbook.pytest_plugin.markers import ExploreMarker
from offbook.pytest_plugin.options import OFFBOOK
from offbook.pytest_plugin.summary import is_own_file, may_shorten, missed_text
from offbook.recording.match.continuation import Continuation
from offbook.recording.stores.locate import open_store
from offbook.subjects.forked_run import IsolatedSubject

ASSERTION_ERRORS = (AssertionError, pytest.fail.Exception)
CONTROL_ERRORS = (pytest.skip.Exception, pytest.xfail.Exception, pytest.exit.Exception)
"""Errors that a test raises to control pytest."""


_PLACE = re.compile(r'File ".+", line \d+')


class TestEnding(Struct, frozen=True, kw_only=True):
    """The ending of a test's function as text, to be sent by a forked run.

    `problem` is its error on one line, and `failure` pytest's report of a clean run's error. `missed` is the report of
    an unrecorded call that ended it, `control` the class of an error that controls pytest, with its `reason`. `log`,
    `out` and `err` are its logs and prints, if pytest captures them in memory.
    """

    __test__: ClassVar[bool] = False

    problem: str = ""
    traceback: str = ""
    failure: str = ""
    missed: str = ""
    control: str = ""
    reason: str = ""
    log: str = ""
    out: str = ""
    err: str = ""

    @property
    def place(self) -> str:
        """The line of the traceback at which it ended with an error, or ""."""
        return next(iter(_PLACE.findall(self.traceback)[-1:]), "")


class ObservedRun(Struct, frozen=True):
    """A run of the test, the ending of its function, and its error if it ran in this process."""

    run: Run
    ending: TestEnding
    error: BaseException | None = None

    @property
    def problem(self) -> str:
        """The reason why the clean run failed, or ""."""
        failure = self.run.error
        text = self.ending.problem or (f"{failure.type}: {failure.message}" if failure else "")
        return text or self.run.hung or self.run.diverged


class TestSubject(IsolatedSubject):
    """An explored test as a subject, with its recording and, once made, its clean run.

    A budget of time begins with the test's first item. `causes` are those of failed items, each with its first item.

    The function runs in a forked process. Its fixtures are set up before, for each item, so every run of an item starts
    from the same state.
    """

    __test__ = False
    is_silent = False

    def __init__(self, recording: str, marker: ExploreMarker) -> None:
        self._marker = marker
        reader, declared = open_store(recording).read(), marker.declarations
        super().__init__(HarnessFactory(reader, marker.divergence(), declarations=declared), marker.deadlines)
        self.name = recording
        self.clean: Run | None = None
        self.deadline = BudgetDeadline(parse_budget(marker.budget).time_s)
        self.causes: dict[tuple[str, str], str] = {}
        self._item: pytest.Function | None = None
        self._error: BaseException | None = None

    def observe(self, item: pytest.Function, plan: FaultPlan, continuation: Continuation = "stubborn") -> ObservedRun:
        """Run the function of the item, in a forked process unless it is debugged."""
        self._item, self._error, self.notes = item, None, {}
        run = self.run(plan, continuation) if self._is_forked(item) else self.run_here(plan, continuation)
        observed = ObservedRun(run, TestEnding(**self.notes), self._error)
        _show_output(item, observed.ending)
        _raise_control(observed.ending)
        return observed

    def _is_forked(self, item: pytest.Function) -> bool:
        is_debugged = item.config.getoption("usepdb", default=False) or item.config.getoption("trace", default=False)
        return self._marker.isolated and not is_debugged

    def run_here(self, plan: FaultPlan, continuation: Continuation) -> Run:
        """Run the function, and turn a failed assertion into a broken invariant."""
        assert self._item is not None
        marker = self._marker
        monitor = RunMonitor(self._harnesses, plan, continuation, declared=marker.declared, deadlines=marker.deadlines)
        fixture: Any = self._item.funcargs[OFFBOOK]
        fixture.bind(monitor.harness, monitor)
        before, errors = _captured_output(), list[BaseException]()
        run = monitor.observe(partial(_call_test, self._item, monitor, errors))
        broken = [str(error) or type(error).__name__ for error in errors if isinstance(error, ASSERTION_ERRORS)]
        self._error = errors[0] if errors else None
        if CaseProcess.current is not None:
            self.notes = _notes(self._item, self._error, before, is_clean=not list(plan))
            _save_coverage(self._item)
        elif self._error is not None:
            self.notes = {"problem": _problem(self._error), "traceback": _traceback(self._error, self._item)}
        if self._error is not None and run.diverged:
            again = record_again_hint(self._item.nodeid.partition("[")[0])
            self.notes["missed"] = missed_text(self._item, self._error, run.diverged, again=again)
        return with_state(replace(run, broken=tuple(broken)), marker.state)


def _call_test(item: pytest.Function, monitor: RunMonitor, errors: list[BaseException]) -> Any:
    """Call the function of a test and return its result. Its error is added to `errors`."""
    function = _test_function(item.obj)
    arguments = {name: item.funcargs[name] for name in signature(function).parameters if name in item.funcargs}
    try:
        return monitor.run(function(**arguments)) if iscoroutinefunction(function) else function(**arguments)
    except ASSERTION_ERRORS as error:
        errors.append(error)
    except (Exception, SystemExit, *CONTROL_ERRORS) as error:
        errors.append(error)
        raise


def _notes(
    item: pytest.Function, error: BaseException | None, before: Sequence[str], *, is_clean: bool
) -> dict[str, str]:
    """Return the ending of a function in a forked process.

    Only clean runs get pytest's report of an error: pytest parses the source of every frame for it, which takes longer
    than most runs.
    """
    out, err = [text.removeprefix(earlier) for text, earlier in zip(_captured_output(), before, strict=True)]
    notes = {"out": out, "err": err, "log": _captured_log()}
    if isinstance(error, CONTROL_ERRORS):
        notes |= {"control": type(error).__name__, "reason": str(error)}
    elif error is not None:
        failure = str(item.repr_failure(pytest.ExceptionInfo.from_exception(error))) if is_clean else ""
        notes |= {"problem": _problem(error), "traceback": _traceback(error, item), "failure": failure}
    return {name: text for name, text in notes.items() if text}


def _captured_output() -> tuple[str, str]:
    """Return the prints captured in memory. Those captured in files are the parent's as well."""
    out, err = (getattr(stream, "getvalue", str)() for stream in (sys.stdout, sys.stderr))
    return str(out), str(err)


def _captured_log() -> str:
    streams = [getattr(handler, "stream", None) for handler in logging.getLogger().handlers]
    return max((stream.getvalue() for stream in streams if isinstance(stream, StringIO)), key=len, default="")


def _save_coverage(item: pytest.Function) -> None:
    """Save the coverage of a forked run, if its data is in a separate file next to the parent's."""
    coverage = sys.modules.get("coverage")
    current = None if coverage is None else coverage.Coverage.current()
    if current is not None and (item.config.pluginmanager.hasplugin("_cov") or current.get_option("run:parallel")):
        current.stop()
        current.save()


def _show_output(item: pytest.Function, ending: TestEnding) -> None:
    """Add a forked run's prints and logs to the report of the item."""
    for name, text in (("stdout", ending.out), ("stderr", ending.err), ("log", ending.log.strip())):
        item.add_report_section("call", name, text)


def _raise_control(ending: TestEnding) -> None:
    for error in CONTROL_ERRORS if ending.control else ():
        if error.__name__ == ending.control:
            raise error(ending.reason)


def _problem(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _traceback(error: BaseException, item: pytest.Item) -> str:
    """Return the traceback of an error with the frames of the project alone, or all if the user chose a style."""
    shown = TracebackException.from_exception(error)
    waiting = [shown] if may_shorten(item.config) else []
    while waiting:
        each = waiting.pop()
        own = [frame for frame in each.stack if is_own_file(frame.filename)]
        each.stack = StackSummary.from_list(own) if own else each.stack
        waiting += [cause for cause in (each.__cause__, each.__context__) if cause is not None]
    return "".join(shown.format())


def _test_function(found: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function of the test, inside the wrapper of a plugin that runs async tests in real time."""
    inner = getattr(found, "__wrapped__", None)
    return inner if inner is not None and iscoroutinefunction(inner) and not iscoroutinefunction(found) else found
