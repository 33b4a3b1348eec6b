"""Problems of a workflow file: their positions, and the report that collects them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from offbook.errors import Problem, WorkflowError
from offbook.text import shorten

DocumentPath: TypeAlias = tuple[str | int, ...]


class Position(NamedTuple):
    """A line and a column, both counted from 1; 0 if unknown."""

    line: int = 0
    column: int = 0


class Positions:
    """The positions in one document: of a mapping's entry its key, of a list's element its start."""

    def __init__(self, known: Mapping[DocumentPath, Position] | None = None) -> None:
        self._known = {} if known is None else known

    def of(self, path: DocumentPath) -> Position:
        """Return the position of `path`, or of the nearest enclosing path with a known position."""
        while path and path not in self._known:
            path = path[:-1]
        return self._known.get(path, Position())


def place_of(path: DocumentPath) -> str:
    """Return the path as text, like `steps[2].prompt`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


class ProblemReport:
    """Collects the problems of the document `source`."""

    def __init__(self, *, source: str = "", positions: Positions | None = None) -> None:
        self._source, self._positions = source, positions or Positions()
        self._problems: list[Problem] = []

    def add(self, path: DocumentPath, reason: str, *, hint: str = "", position: Position | None = None) -> None:
        """Add a problem at `path`; by default its position is looked up."""
        line, column = position or self._positions.of(path)
        self._problems.append(
            Problem(reason, place=place_of(path), line=line, column=column, hint=hint, source=self._source)
        )

    def include(self, error: WorkflowError) -> None:
        """Add all problems of another document."""
        self._problems.extend(error.problems)

    def conclude(self) -> None:
        """Raise the problems, in document order.

        Raises:
            WorkflowError: there are problems.
        """
        if self._problems:
            raise WorkflowError(sorted(self._problems, key=self._order))

    def _order(self, problem: Problem) -> tuple[bool, int, int]:
        return problem.source != self._source, problem.line, problem.column


def show_value(given: object) -> str:
    """Return a value as messages show it."""
    if isinstance(given, Mapping):
        return "a mapping"
    if isinstance(given, list | tuple):
        return "a list"
    text = "nothing" if given is None else str(given).lower() if isinstance(given, bool) else repr(given)
    return shorten(text, 60)
