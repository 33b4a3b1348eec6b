"""The seam of call formats: an opening pattern, its reader, and the match that a reader returns."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import TypeAlias

from msgspec import Struct

from offbook.messages import ToolCall


class UnreadableError(ValueError):
    """Something cannot be read to its end. Whoever calls a reader handles it."""


class TextMatch(Struct, frozen=True):
    """A stretch of a text: the calls in it, or where in it thinking starts and ends.

    `is_text` says that it stays part of the text.
    """

    start: int
    end: int
    calls: tuple[ToolCall, ...] = ()
    thought: tuple[int, int] = (0, 0)
    is_text: bool = False


FormatReader: TypeAlias = Callable[[str, re.Match[str], Collection[str]], TextMatch]


class CallFormat(Struct, frozen=True):
    """A way to write calls: the pattern that opens it, and what reads on from there.

    `is_marked` says that the opening itself tells that a call is meant, which mere JSON does not.
    """

    opening: str
    read: FormatReader
    is_marked: bool = True


def join_openings(**openings: str) -> re.Pattern[str]:
    """One pattern for all openings; the name of the one that matched is its `lastgroup`."""
    return re.compile("|".join(f"(?P<{name}>{opening})" for name, opening in openings.items()))
