"""What a model thought aloud before its answer."""

from __future__ import annotations

import re
from collections.abc import Collection

from offbook.agent.rescue.found import Family, Found

CLOSING = r"(?i:</think(?:ing)?>|\[/THINK\])"
_OPENING = r"(?i:<think(?:ing)?>|\[THINK\])"
_opening = re.compile(_OPENING)
_closing = re.compile(CLOSING)
_late_closing = re.compile(rf"\n[ \t]*+({CLOSING})")


def read(text: str, opening: re.Match[str], tools: Collection[str]) -> Found:
    """Everything up to the closing tag; without one, everything."""
    closing = _closing.search(text, opening.end())
    inner_end, end = closing.span() if closing else (len(text), len(text))
    return Found(opening.start(), end, thought=(opening.end(), inner_end))


def before(closing: re.Match[str]) -> Found:
    """Everything before a closing tag that nothing opened: the prompt did."""
    return Found(0, closing.end(), thought=(0, closing.start()))


def late_closing(text: str, pos: int) -> re.Match[str] | None:
    """The last closing tag behind `pos` that starts its line, if nothing behind `pos` opened it."""
    closing = None
    for closing in _late_closing.finditer(text, pos):  # noqa: B007 - the last one is wanted
        pass
    return None if closing is None or _opening.search(text, pos, closing.start()) else closing


FAMILY = Family(_OPENING, read)
