"""Calls between XML-like tags."""

from __future__ import annotations

import re
from collections.abc import Collection

from offbook.agent.rescue.call_format import (
    CallFormat,
    TextMatch,
    UnreadableError,
    calls_in,
    is_plain,
    parse,
    read_object,
    read_value,
)
from offbook.messages import JsonObject, ToolCall

_SPACE = "(?:｜DSML｜|[a-z]{1,20}:)?"
_WRAPPER = r"(?:tool_calls?|function_calls?|functioncall|tools)"
_OPEN = rf"<{_SPACE}{_WRAPPER}>|<\|tool_calls?\|>"
_CLOSE = rf"</{_SPACE}{_WRAPPER}>|<\|/tool_calls?\|>"
_ELEMENT = rf"<{_SPACE}(?:function|invoke)(?:=|\s+name=)"

_wrapper = re.compile(rf"(?:{_OPEN})\s*+")
_gap = re.compile(r"(?:\s|,|```(?:json)?)*+")
_close = re.compile(_CLOSE)
_end = re.compile(rf"(?:{_CLOSE})|(?={_OPEN}|<[|｜])|\Z")
_element = re.compile(rf"""{_ELEMENT}["']?([\w.-]+)["']?\s*>\s*+""")
_element_end = re.compile(rf"\s*+</{_SPACE}(?:function|invoke)>")
_parameter = re.compile(
    rf"""\s*+<{_SPACE}param(?:eter)?(?:=|\s+name=)["']?([\w.-]+)["']?(?:\s+string="(true|false)")?\s*>"""
    rf"(.*?)</{_SPACE}param(?:eter)?>",
    re.DOTALL,
)
_bare_name = re.compile(r"([\w.-]+)\s*+(?=<)")
_pair = re.compile(r"\s*+<arg_key>([^<]*+)</arg_key>\s*+<arg_value>(.*?)</arg_value>", re.DOTALL)


def read_tags(text: str, opening: re.Match[str], tools: Collection[str]) -> TextMatch:
    """Read the calls of a wrapper, or of one element outside of a wrapper.

    Raises:
        UnreadableError: there is something else, or a call is incomplete.
    """
    start = opening.start()
    wrapper = _wrapper.match(text, start)
    if wrapper is None:
        call, end = _read_element(text, start)
        return TextMatch(start, end, (call,))
    calls: list[ToolCall] = []
    pos = _past_gap(text, wrapper.end())
    while not (end_mark := _end.match(text, pos)):
        here, pos = _read_item(text, pos, tools)
        calls += here
        pos = _past_gap(text, pos)
    if not calls and _close.match(text, pos):
        raise UnreadableError
    return TextMatch(start, end_mark.end(), tuple(calls))


def _past_gap(text: str, pos: int) -> int:
    gap = _gap.match(text, pos)
    return gap.end() if gap else pos


def _read_item(text: str, pos: int, tools: Collection[str]) -> tuple[tuple[ToolCall, ...], int]:
    if text[pos] in "{[":
        value = read_value(text, pos)
        if calls := calls_in(value.value, tools, is_closed=value.is_closed, is_marked=True):
            return calls, value.end
        raise UnreadableError
    call, end = _read_element(text, pos) if text[pos] == "<" else _read_pairs(text, pos)
    return (call,), end


def _read_element(text: str, pos: int) -> tuple[ToolCall, int]:
    """Read a call whose tag has the tool's name, around parameters, or around a JSON object without an end tag."""
    element = _element.match(text, pos)
    if element is None:
        raise UnreadableError
    if text.startswith("{", element.end()):
        args, end = read_object(text, element.end())
        closing = _element_end.match(text, end)
        return ToolCall(element[1], args), closing.end() if closing else end
    args, end = _read_parameters(text, element.end())
    closing = _element_end.match(text, end)
    if closing is None:
        raise UnreadableError
    return ToolCall(element[1], args), closing.end()


def _read_parameters(text: str, pos: int) -> tuple[JsonObject, int]:
    args: JsonObject = {}
    while parameter := _parameter.match(text, pos):
        key, is_text, value = parameter.groups()
        _add_argument(args, key, _strip_line_breaks(value) if is_text == "true" else _parameter_value(value))
        pos = parameter.end()
    return args, pos


def _read_pairs(text: str, pos: int) -> tuple[ToolCall, int]:
    """Read a call in the format of GLM: the tool's name, then keys and values, up to the end tag."""
    name = _bare_name.match(text, pos)
    if name is None:
        raise UnreadableError
    args: JsonObject = {}
    pos = name.end()
    while pair := _pair.match(text, pos):
        _add_argument(args, pair[1].strip(), _parameter_value(pair[2]))
        pos = pair.end()
    if not _close.match(text, _past_gap(text, pos)):
        raise UnreadableError
    return ToolCall(name[1], args), pos


def _add_argument(args: JsonObject, key: str, value: object) -> None:
    if key in args:
        raise UnreadableError
    args[key] = value


def _parameter_value(text: str) -> object:
    """Return the value of a parameter: its text parsed as JSON, unless that fails or gives a string."""
    try:
        value = parse(text)
    except UnreadableError:
        return _strip_line_breaks(text)
    return _strip_line_breaks(text) if isinstance(value, str) or not is_plain(value) else value


def _strip_line_breaks(text: str) -> str:
    """Return the text without the line breaks between it and its tags."""
    return text.removeprefix("\n").removesuffix("\n")


TAGS = CallFormat(f"{_OPEN}|{_ELEMENT}", read_tags)
