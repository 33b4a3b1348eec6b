"""Who runs the cases of a subject: one, a fixed number, or as many as pay off."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Literal, Self, TypeAlias

from offbook.clock import SYSTEM_CLOCK
from offbook.explore.case import Case
from offbook.explore.exploration import Crew, LoneHand
from offbook.explore.program_subject import ProgramSubject
from offbook.explore.run import Run
from offbook.explore.subject import Subject
from offbook.explore.thread_crew import ThreadCrew
from offbook.faults import FaultPlan
from offbook.subjects.silent import SilentSubject
from offbook.subjects.worker_crew import WorkerCrew
from offbook.subjects.worker_lines import Part

Workers: TypeAlias = int | Literal["auto"]
WORTH_S = 2.0
"""What all cases together must take, for further workers to pay off."""


class TimedSubject:
    """A subject of which it is known how long its last run took, in real time."""

    def __init__(self, subject: Subject) -> None:
        self.name, self._subject = subject.name, subject
        self.took_s = 0.0

    def run(self, plan: FaultPlan) -> Run:
        started_s = SYSTEM_CLOCK.monotonic_s()
        try:
            return self._subject.run(plan)
        finally:
            self.took_s = SYSTEM_CLOCK.monotonic_s() - started_s


class ChosenCrew:
    """Chooses its `hands` when the first cases are there, by how long the clean run took. Ends them with the block.

    With `auto` there is one for each core, but a single one, right here, if all cases take little time. Programs are
    processes anyway: threads wait for them. What runs print is not heard.
    """

    def __init__(self, subject: Subject, part: Part, workers: Workers) -> None:
        self._silent = SilentSubject(subject)
        self.subject = TimedSubject(self._silent)
        self._own, self._part, self._workers = subject, part, workers
        self.hands: Crew | None = None
        self._opened = ExitStack()

    def run(self, cases: Sequence[Case]) -> Iterator[Run]:
        if self.hands is None:
            self.hands = self._of(min(self._count(cases), max(len(cases), 1)))
        return self.hands.run(cases)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.close()

    def _count(self, cases: Sequence[Case]) -> int:
        if self._workers != "auto":
            return self._workers
        return 1 if len(cases) * self.subject.took_s < WORTH_S else os.cpu_count() or 1

    def _of(self, count: int) -> Crew:
        if count == 1:
            return LoneHand(self._silent)
        if isinstance(self._own, ProgramSubject):
            return ThreadCrew(self._own, count)
        return self._opened.enter_context(WorkerCrew(self._part, count))
