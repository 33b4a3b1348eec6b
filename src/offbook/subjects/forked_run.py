"""Subjects that run in this program: every run, including the clean one, is a separate forked process."""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from contextlib import suppress
from functools import partial
from importlib import import_module
from itertools import islice
from traceback import format_exc
from typing import ClassVar

from msgspec.structs import replace

from offbook.errors import InputError
from offbook.explore.harness import HarnessFactory
from offbook.explore.isolation import GRACE_S, ForkedProcess, ProcessEnding, wait_for_any
from offbook.explore.monitor import PROCESS_ENDED, CaseReport, exit_text, is_own_module, killed_text
from offbook.explore.options import Deadlines
from offbook.explore.run import CASE_VARIABLE, Run, RunFailure, case_name
from offbook.faults import FaultPlan
from offbook.recording.match.continuation import Continuation
from offbook.virtual_time import TimeReferences


class StartedRun:
    """A run in progress in its own process. `process.ending` is set when it has ended."""

    def __init__(self, process: ForkedProcess, plan: FaultPlan) -> None:
        self.process, self.plan = process, plan


class IsolatedSubject(ABC):
    """A subject that runs in this program. A subclass implements `run_here`, which is called in a forked process.

    Nothing that a run does, loads or changes remains for the next one, except the clean run's answers. Modules that the
    clean run loaded from outside the agent's own code are then loaded here, so that other runs need not.

    `notes` are remarks of `run_here` in addition to its report: set there, and here after the last run. Prints are
    discarded if the subject `is_silent`.

    Raises:
        InputError: from `run` and `finish`, if `run_here` raised it.
    """

    name: str
    is_silent: ClassVar[bool] = True

    def __init__(self, harnesses: HarnessFactory, deadlines: Deadlines) -> None:
        self._harnesses, self._deadlines = harnesses, deadlines
        self.notes: dict[str, str] = {}
        self._tried = set[str]()
        self._references: TimeReferences | None = None

    @abstractmethod
    def run_here(self, plan: FaultPlan, continuation: Continuation) -> Run:
        """Run it once. Changes to this and all other objects are lost."""

    def run(self, plan: FaultPlan, continuation: Continuation = "stubborn") -> Run:
        """Run it in a separate process, and wait for the end."""
        started = self.start(plan, continuation)
        try:
            wait_for_any([started.process])
            return self.finish(started)
        finally:
            started.process.kill()

    def start(self, plan: FaultPlan, continuation: Continuation = "stubborn") -> StartedRun:
        """Start a run in a separate process. Several may run concurrently, except during the first, the clean run."""
        if self._references is None:
            self._references = TimeReferences()
        _ = str(plan)  # its cost is then also known in the process of the run
        process = ForkedProcess(
            partial(self._report, plan, continuation),
            references=self._references,
            limit_s=self._deadlines.real_s + GRACE_S,
            is_silent=self.is_silent,
        )
        return StartedRun(process, plan)

    def finish(self, started: StartedRun) -> Run:
        """Return a run whose process has ended."""
        ending = started.process.ending
        assert ending is not None
        self.notes = {}
        if not ending.report:
            return self._cut_run(started.plan, ending)
        report = CaseReport.from_bytes(ending.report)
        self.notes = report.notes
        if report.refusal is not None:
            raise InputError(**report.refusal)
        if report.run is None:
            raise RuntimeError(report.error)
        if report.script is not None:
            self._harnesses.load_script(report.script)
        new = [name for name in report.modules if name not in self._tried]
        self._tried.update(new)
        for name in new:
            with suppress(Exception):  # it may need something that only the run has, and then the run loads it
                import_module(name)
        if new:
            self._references = None
        return report.run

    def close(self) -> None:
        self._harnesses.close()

    def _report(self, plan: FaultPlan, continuation: Continuation) -> bytes:
        is_clean, before = not self._harnesses.has_script, len(sys.modules)
        os.environ[CASE_VARIABLE] = case_name(plan, continuation)
        try:
            run = self.run_here(plan, continuation)
            report = CaseReport(run=run, notes=self.notes, modules=_foreign_modules(before))
            if is_clean:
                report = replace(report, script=self._harnesses.script)
        except InputError as error:
            report = CaseReport(refusal=error.fields)
        except BaseException:
            report = CaseReport(error=format_exc())
        return report.to_bytes()

    def _cut_run(self, plan: FaultPlan, ending: ProcessEnding) -> Run:
        """Return the run of a process that could not report it."""
        fired = tuple(str(line) for line in plan)
        if ending.was_late:
            return Run(hung=killed_text(self._deadlines, ending.dump), fired=fired)
        return Run(error=RunFailure("undeclared", PROCESS_ENDED, exit_text(ending.exit_code)), fired=fired)


def _foreign_modules(before: int) -> tuple[str, ...]:
    """Return the modules loaded after the first `before`, without the agent's.

    They are the last ones. Looking at a module writes to its memory, which is shared with the parent until then:
    looking at all of them takes as long as a small run.
    """
    loaded = list(islice(reversed(sys.modules), max(len(sys.modules) - before, 0)))
    return tuple(name for name in reversed(loaded) if not is_own_module(sys.modules[name]))
