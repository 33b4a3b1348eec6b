"""Reads JSON as models write it from within a text, and the calls that it holds."""

from __future__ import annotations

import json
import re
from collections.abc import Collection

import orjson
from msgspec import Struct

from offbook.agent.rescue.call_format import UnreadableError
from offbook.messages import JsonObject, ToolCall

_TOKEN = re.compile(
    r"""(?P<space>(?:\s|//[^\n]*|\#[^\n]*|/\*.*?\*/)++)
      | (?P<text>"[^"\\]*+(?:\\.[^"\\]*+)*+" | '[^'\\]*+(?:\\.[^'\\]*+)*+')
      | (?P<open>[{\[])
      | (?P<close>[}\]])
      | (?P<mark>[:,])
      | (?P<number>-?\d[\d.eE+-]*+(?!\w))
      | (?P<key>[A-Za-z_][\w-]*+(?=\s*:))
      | (?P<word>(?:true|True|false|False|null|None)\b)""",
    re.VERBOSE | re.DOTALL,
)
_END = re.compile(r"\Z|```|</|<[|｜]")
_ESCAPE = re.compile(r'\\.|"', re.DOTALL)
_FIXED = {"\\'": "'", '"': '\\"'}
_WORDS = {"True": "true", "False": "false", "None": "null"}
_DEPTHS = {"open": 1, "close": -1}


class ParsedValue(Struct, frozen=True):
    """A value, where it ends, and whether its outermost bracket was closed there."""

    value: object
    end: int
    is_closed: bool = True


def read_value(text: str, start: int) -> ParsedValue:
    """The value that starts at `start`.

    Single quotes, trailing commas, comments, bare keys, Python's constants and raw line breaks in
    strings are put right, and one closing brace may be missing where the text (or its code fence, or
    its tag) ends right behind another one. Everything else is as JSON has it.

    Raises:
        UnreadableError: there is no such value, it breaks off, or a key is there twice.
    """
    pieces: list[str] = []
    pos, depth = start, 0
    while token := _TOKEN.match(text, pos):
        pos, kind = token.end(), token.lastgroup or ""
        if kind == "space":
            continue
        if kind == "close" and pieces and pieces[-1] == ",":
            pieces.pop()
        pieces.append(_strict_form(token))
        depth += _DEPTHS.get(kind, 0)
        if depth <= 0:
            return ParsedValue(parse("".join(pieces)), pos)
    if depth == 1 and pieces[0] == "{" and pieces[-1] == "}" and _END.match(text, pos):
        return ParsedValue(parse("".join([*pieces, "}"])), pos, is_closed=False)
    raise UnreadableError


def read_object(text: str, start: int) -> tuple[JsonObject, int]:
    """The object that starts at `start`, and its end.

    Raises:
        UnreadableError: there is none, or it is not closed.
    """
    read = read_value(text, start)
    if not isinstance(read.value, dict) or not read.is_closed:
        raise UnreadableError
    return read.value, read.end


def parse(text: str) -> object:
    """What the JSON says; line breaks in strings may be raw.

    Raises:
        UnreadableError: it is no JSON, or a key is there twice.
    """
    try:
        return _decoder.decode(text)
    except (ValueError, RecursionError):
        raise UnreadableError from None


def is_plain(value: object) -> bool:
    """Whether a value is the same after a journey as JSON: no infinity, no huge number, no broken text."""
    try:
        return bool(orjson.loads(orjson.dumps(value)) == value)
    except (orjson.JSONEncodeError, orjson.JSONDecodeError):
        return False


def _strict_form(token: re.Match[str]) -> str:
    written = token[0]
    match token.lastgroup:
        case "text":
            return f'"{_ESCAPE.sub(lambda found: _FIXED.get(found[0], found[0]), written[1:-1])}"'
        case "key":
            return f'"{written}"'
        case "word":
            return _WORDS.get(written, written)
        case _:
            return written


def _unique(pairs: list[tuple[str, object]]) -> JsonObject:
    unique = dict(pairs)
    if len(unique) < len(pairs):
        raise UnreadableError
    return unique


def _refuse(constant: str) -> object:
    raise UnreadableError(constant)


_decoder = json.JSONDecoder(strict=False, object_pairs_hook=_unique, parse_constant=_refuse)


_NAMES = ("tool", "name", "tool_name", "function", "function_name", "action")
_ARGUMENTS = ("args", "arguments", "parameters", "params", "input", "tool_input", "tool_args", "action_input")
_THOUGHTS = ("thought", "thoughts", "reasoning")
_BESIDE = {"id", "call_id", "tool_call_id", "index", "type", *_THOUGHTS}
_TYPES = {None, "function", "function_call", "tool", "tool_call", "tool_use"}
_WRAPPERS = ("function", "function_call", "tool_call")


def calls_in(value: object, tools: Collection[str], *, is_closed: bool = True) -> tuple[ToolCall, ...]:
    """The calls that a JSON value is, of whatever tools; none if any part of it is no call.

    An object whose only key is one of `tools` counts only if it `is_closed`: more keys would make it something else.
    """
    items = _items(value)
    calls = [_named_call(item) or (_keyed_call(item, tools) if is_closed else None) for item in items]
    found = tuple(call for call in calls if call is not None)
    return found if len(found) == len(items) else ()


def _items(value: object) -> list[object]:
    """The list that a value is or holds, or the value alone."""
    if isinstance(value, dict) and isinstance(value.get("tool_calls"), list):
        is_message = value.keys() <= {"tool_calls", "role", "content"} and not value.get("content")
        return value["tool_calls"] if is_message else [None]
    return value if isinstance(value, list) else [value]


def _named_call(value: object) -> ToolCall | None:
    """The call of an object that tells the tool under one key and its arguments under another."""
    if not isinstance(value, dict) or value.get("type") not in _TYPES:
        return None
    for wrapper in _WRAPPERS:
        if isinstance(value.get(wrapper), dict):
            return _named_call(value[wrapper]) if value.keys() <= {wrapper, *_BESIDE} else None
    names = [key for key in _NAMES if key in value]
    given = [key for key in _ARGUMENTS if key in value]
    if len(names) != 1 or len(given) != 1 or not value.keys() <= {*names, *given, *_BESIDE}:
        return None
    name, args = value[names[0]], _arguments(value[given[0]])
    if not isinstance(name, str) or args is None:
        return None
    return ToolCall(name, args, reasoning=_thought(value))


def _keyed_call(value: object, tools: Collection[str]) -> ToolCall | None:
    """The call of an object whose only key is the tool's name."""
    if not isinstance(value, dict) or len(value) != 1:
        return None
    [(name, args)] = value.items()
    is_call = name in tools and isinstance(args, dict) and not _is_definition(args)
    return ToolCall(name, args) if is_call else None


def _arguments(value: object) -> JsonObject | None:
    """The arguments: an object, JSON text of one, or nothing at all for none."""
    if isinstance(value, str) and value:
        try:
            value = parse(value)
        except UnreadableError:
            return None
    elif value in (None, ""):
        return {}
    return value if isinstance(value, dict) and not _is_definition(value) else None


def _is_definition(value: JsonObject) -> bool:
    """Whether it says which arguments a tool takes, not what they are."""
    is_schema = value.get("type") == "object" and isinstance(value.get("properties"), dict)
    return is_schema or {"description", "parameters"} <= value.keys()


def _thought(value: JsonObject) -> str | None:
    return next((value[key] for key in _THOUGHTS if isinstance(value.get(key), str) and value[key]), None)
