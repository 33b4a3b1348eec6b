"""Where a scenario was written."""

from __future__ import annotations

from msgspec import Struct


class Place(Struct, frozen=True):
    """A file and a line of it, from 1; 0 is not known."""

    file: str
    line: int = 0


def place_of(source: str) -> Place:
    """The place that a source like `tests/refunds.py:12` names."""
    file, _, line = source.rpartition(":")
    return Place(file, int(line)) if file and line.isdecimal() else Place(source)
