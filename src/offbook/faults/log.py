"""Which faults have fired in a run, which lines of its plan have not, and which calls it made."""

from __future__ import annotations

from offbook.errors import RecordingMismatchError
from offbook.faults.site import PlannedFault, ReachedSites, Site, faults_of_other_calls, mark_of


class FaultLog:
    """The faults that fired: `fired` lists them in order, as lines of a plan. Injectors may share one log.

    `fired_lines` are the lines of the plan that have fired. `marks` are those that the texts of faults carry, each
    once: only those of explorations do. `reached` are the sites of all calls.
    """

    def __init__(self) -> None:
        self.fired: list[PlannedFault] = []
        self.marks: list[str] = []
        self.reached = ReachedSites()
        self.fired_lines: list[PlannedFault] = []

    def note(self, fired: PlannedFault, line: PlannedFault | None, *, marked: bool = False) -> str:
        """Add a fault that fired, and the line of the plan that made it fire, if it was not chaos.

        Returns the mark that the texts of the fault are to carry; empty unless it is `marked`.
        """
        self.fired.append(fired)
        if line is not None and line not in self.fired_lines:
            self.fired_lines.append(line)
        mark = mark_of(line or fired) if marked else ""
        if mark and mark not in self.marks:
            self.marks.append(mark)
        return mark

    def take_back(self, fired: PlannedFault, line: PlannedFault | None) -> None:
        """Remove a fault that has changed nothing after all."""
        self.fired.remove(fired)
        if line in self.fired_lines:
            self.fired_lines.remove(line)

    def update(self, others: FaultLog) -> None:
        """Add the faults and the sites of other calls."""
        self.fired += others.fired
        self.fired_lines += [line for line in others.fired_lines if line not in self.fired_lines]
        self.reached.update(others.reached)

    def explain(self, error: RecordingMismatchError, site: Site | None = None) -> RecordingMismatchError:
        """Add the faults that fired at other calls than this one, which can have caused that it has no answer.

        It stays the same error: a replay has noted it as a miss, which is then reported with these faults.
        """
        causes = [str(planned) for planned in faults_of_other_calls(self.fired, site)]
        return error.attribute(causes) if causes else error
