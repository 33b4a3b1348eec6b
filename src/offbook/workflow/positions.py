"""Where in a file each part of a document stands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

DocumentPath: TypeAlias = tuple[str | int, ...]


class Position(NamedTuple):
    """A line and a column, both from 1; 0 where they are not known."""

    line: int = 0
    column: int = 0


class Positions:
    """Where the parts of one document stand: an entry of a mapping at its key, an element of a list at its start."""

    def __init__(self, known: Mapping[DocumentPath, Position] | None = None) -> None:
        self._known = {} if known is None else known

    def of(self, path: DocumentPath) -> Position:
        """The position of `path`, or of the nearest part around it that is known."""
        while path and path not in self._known:
            path = path[:-1]
        return self._known.get(path, Position())


def place_of(path: DocumentPath) -> str:
    """The path as people write it: `steps[2].prompt`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")
