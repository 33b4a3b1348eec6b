"""Calls as Python writes them, with keywords and literal values alone. Nothing is evaluated."""

from __future__ import annotations

import re
from collections.abc import Collection

from offbook.agent.rescue import json_calls
from offbook.agent.rescue.found import Family, Found, UnreadableError
from offbook.agent.rescue.json_value import read_value
from offbook.messages import JsonObject, ToolCall

_NAME = r"[A-Za-z_][\w-]*+"
_bare = re.compile(rf"\s*+(?:\[\s*+)?({_NAME})(?:\.call)?\(")
_call = re.compile(rf"\s*+({_NAME})(?:\.call)?\(")
_keyword = re.compile(rf"\s*+({_NAME})\s*=\s*+")
_list_start = re.compile(r"\s*+\[")
_after_value = re.compile(r"\s*+(,\s*+\)|[,)])")
_no_arguments = re.compile(r"\s*+\)")
_after_call = re.compile(r"\s*+(,|\])")
_between = re.compile(rf"(?:\s*;\s*|[ \t]*\n\s*)(?={_NAME}(?:\.call)?\()")
_json = re.compile(rf"\s*+(?:{json_calls.FAMILY.opening})")


def opens(text: str, pos: int, tools: Collection[str]) -> bool:
    """Whether a call of one of `tools` seems to start here, or a list of calls."""
    bare = _bare.match(text, pos)
    return bare is not None and bare[1] in tools


def read_bare(text: str, pos: int) -> Found:
    """A list of calls, or calls each on a line of its own.

    Raises:
        UnreadableError: they break off, or have arguments without a keyword or values that are no literals.
    """
    start = _list_start.match(text, pos)
    calls, end = _read_list(text, start.end()) if start else _read_lines(text, pos)
    return Found(pos, end, tuple(calls))


def read(text: str, opening: re.Match[str], tools: Collection[str]) -> Found:
    """What follows a token that announces code: calls in Python, or in JSON.

    Raises:
        UnreadableError: other code follows.
    """
    if objects := _json.match(text, opening.end()):
        found = json_calls.read(text, objects, tools)
    else:
        found = read_bare(text, opening.end())
    if not found.calls:
        raise UnreadableError
    return Found(opening.start(), found.end, found.calls)


def _read_list(text: str, pos: int) -> tuple[list[ToolCall], int]:
    calls = []
    while True:
        call, pos = _read_call(text, pos)
        calls.append(call)
        after = _after_call.match(text, pos)
        if after is None:
            raise UnreadableError
        pos = after.end()
        if after[1] == "]":
            return calls, pos


def _read_lines(text: str, pos: int) -> tuple[list[ToolCall], int]:
    call, pos = _read_call(text, pos)
    calls = [call]
    while between := _between.match(text, pos):
        call, pos = _read_call(text, between.end())
        calls.append(call)
    return calls, pos


def _read_call(text: str, pos: int) -> tuple[ToolCall, int]:
    call = _call.match(text, pos)
    if call is None:
        raise UnreadableError
    args: JsonObject = {}
    if empty := _no_arguments.match(text, call.end()):
        return ToolCall(call[1], args), empty.end()
    pos = call.end()
    while keyword := _keyword.match(text, pos):
        value = read_value(text, keyword.end())
        after = _after_value.match(text, value.end)
        if after is None or not value.is_closed or keyword[1] in args:
            raise UnreadableError
        args[keyword[1]] = value.value
        pos = after.end()
        if after[1].endswith(")"):
            return ToolCall(call[1], args), pos
    raise UnreadableError


FAMILY = Family(r"<\|(?:python_tag|python_start|tool_call_start)\|>", read)
