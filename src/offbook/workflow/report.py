"""The problems of one document, as they are found."""

from __future__ import annotations

from offbook.errors import Problem, WorkflowError
from offbook.workflow.positions import DocumentPath, Position, Positions, place_of


class Report:
    """Gathers what is wrong with the document of `source`."""

    def __init__(self, *, source: str = "", positions: Positions | None = None) -> None:
        self._source, self._positions = source, positions or Positions()
        self._problems: list[Problem] = []

    def add(self, path: DocumentPath, reason: str, *, hint: str = "", position: Position | None = None) -> None:
        """Note a problem at `path`, which stands where it is known to stand unless `position` is told."""
        line, column = position or self._positions.of(path)
        self._problems.append(Problem(reason, place_of(path), line, column, hint, self._source))

    def include(self, error: WorkflowError) -> None:
        """Note all problems of another document."""
        self._problems.extend(error.problems)

    def conclude(self) -> None:
        """Raise what was noted, in the order of the document.

        Raises:
            WorkflowError: something was.
        """
        if self._problems:
            raise WorkflowError(sorted(self._problems, key=self._order))

    def _order(self, problem: Problem) -> tuple[bool, int, int]:
        return problem.source != self._source, problem.line, problem.column
