"""Calls between Mistral's bracketed tokens, and behind the `functools` of Phi."""

from __future__ import annotations

import re
from collections.abc import Collection

from offbook.agent.rescue.found import Family, Found, UnreadableError
from offbook.agent.rescue.json_value import read_object, read_value
from offbook.agent.rescue.shapes import calls_in
from offbook.messages import ToolCall

_OPENING = r"\[TOOL_CALLS\]|(?<![\w-])[\w-]{1,64}\[(?:ARGS|CALL_ID)\]|\bfunctools(?=\[)"
_LIST = re.compile(r"(?:\[TOOL_CALLS\]|functools)\s*+(?=[\[{])")
_NAMED = re.compile(r"[\s,]*+(?:\[TOOL_CALLS\])?\s*+([\w-]++)(?:\[CALL_ID\][\w-]*+)?+\s*+(?:\[ARGS\]\s*+(?=\{)|(?=\{))")


def read(text: str, opening: re.Match[str], tools: Collection[str]) -> Found:
    """A list of JSON calls, or names each with their arguments.

    Raises:
        UnreadableError: neither is there.
    """
    start = opening.start()
    if listed := _LIST.match(text, start):
        value = read_value(text, listed.end())
        calls = calls_in(value.value, tools, is_closed=value.is_closed)
        return _found(start, value.end, calls)
    named, end = [], start
    while call := _NAMED.match(text, end):
        args, end = read_object(text, call.end())
        named.append(ToolCall(call[1], args))
    return _found(start, end, tuple(named))


def _found(start: int, end: int, calls: tuple[ToolCall, ...]) -> Found:
    if not calls:
        raise UnreadableError
    return Found(start, end, calls)


FAMILY = Family(_OPENING, read)
