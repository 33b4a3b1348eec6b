"""Calls in a fenced block of code, which must hold nothing else."""

from __future__ import annotations

import re
from collections.abc import Collection

from offbook.agent.rescue import python_calls
from offbook.agent.rescue.families import FAMILIES
from offbook.agent.rescue.found import Family, Found, UnreadableError, joined
from offbook.messages import ToolCall

_openings = joined(**{name: family.opening for name, family in FAMILIES.items()})
_close = re.compile(r"\s*+(?:```|\Z)")
_gap = re.compile(r"[\s,;]*+")


def read(text: str, opening: re.Match[str], tools: Collection[str]) -> Found:
    """The calls of a block; a block with anything else in it is text, and is not looked into.

    Raises:
        UnreadableError: it starts like a call and cannot be read on.
    """
    calls: list[ToolCall] = []
    pos = opening.end()
    while not (closing := _close.match(text, pos)):
        item = _item(text, pos, tools)
        if item is None:
            return Found(opening.start(), _block_end(text, opening.end()), is_text=True)
        calls += item.calls
        pos = item.end
    return Found(opening.start(), closing.end(), tuple(calls), is_text=not calls)


def _item(text: str, pos: int, tools: Collection[str]) -> Found | None:
    gap = _gap.match(text, pos)
    pos = gap.end() if gap else pos
    if python_calls.opens(text, pos, tools):
        try:
            return python_calls.read_bare(text, pos)
        except UnreadableError:
            return None
    opening = _openings.match(text, pos)
    found = FAMILIES[opening.lastgroup or ""].read(text, opening, tools) if opening else None
    return found if found and found.calls else None


def _block_end(text: str, pos: int) -> int:
    closing = text.find("```", pos)
    return len(text) if closing < 0 else closing + 3


FAMILY = Family(r"```[ \t]*[\w+-]*\s*", read, is_marked=False)
