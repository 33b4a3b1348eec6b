"""Calls as JSON objects or a list of them, one after another."""

from __future__ import annotations

import re
from collections.abc import Collection

from offbook.agent.rescue.found import Family, Found
from offbook.agent.rescue.json_value import read_value
from offbook.agent.rescue.shapes import calls_in
from offbook.messages import ToolCall

_OPENING = r"""\{(?=\s*(?:["'#]|/[/*]|[A-Za-z_][\w-]*\s*:))|\[(?=\s*\{)"""
_NEXT = re.compile(rf"[\s,;]*+(?:{_OPENING})")


def read(text: str, opening: re.Match[str], tools: Collection[str]) -> Found:
    """Values up to the last that follows directly. If one of them is no call, none of them is."""
    calls: list[ToolCall] = []
    start, is_text = opening.start(), False
    following: re.Match[str] | None = opening
    while following:
        value = read_value(text, following.end() - 1)
        here = calls_in(value.value, tools, is_closed=value.is_closed)
        is_text = is_text or not here
        calls += here
        following = _NEXT.match(text, value.end)
    return Found(start, value.end, () if is_text else tuple(calls), is_text=is_text)


FAMILY = Family(_OPENING, read, is_marked=False)
