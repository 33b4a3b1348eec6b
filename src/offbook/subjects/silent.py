"""A subject whose prints are not heard: many runs of one that prints would bury what is told of them."""

from __future__ import annotations

import io
from contextlib import redirect_stdout

from offbook.explore.run import Run
from offbook.explore.subject import Subject
from offbook.faults import FaultPlan


class SilentSubject:
    """The subject itself, without what it prints to standard output."""

    def __init__(self, subject: Subject) -> None:
        self.name, self._subject = subject.name, subject

    def run(self, plan: FaultPlan) -> Run:
        with redirect_stdout(io.StringIO()):
            return self._subject.run(plan)
