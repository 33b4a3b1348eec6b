"""The parts that all call formats share: their seam (an opening, a reader, a match), and JSON as models write it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from typing import TypeAlias

import orjson
from msgspec import Struct

from offbook.messages import JsonObject, ToolCall


class UnreadableError(ValueError):
    """A call cannot be read to its end. The caller of a reader handles it."""


class TextMatch(Struct, frozen=True):
    """A range of a text: the calls in it, or where in it thinking starts and ends.

    `is_text` means that the range remains in the text.
    """

    start: int
    end: int
    calls: tuple[ToolCall, ...] = ()
    thought: tuple[int, int] = (0, 0)
    is_text: bool = False


FormatReader: TypeAlias = Callable[[str, re.Match[str], Collection[str]], TextMatch]


class CallFormat(Struct, frozen=True):
    """A notation for calls: its opening pattern, and the function that reads the rest.

    `is_marked` means that the opening alone marks a call, unlike plain JSON.
    """

    opening: str
    read: FormatReader
    is_marked: bool = True


def join_openings(**openings: str) -> re.Pattern[str]:
    """Return one pattern for all openings; `lastgroup` of a match is the name of the opening that matched."""
    return re.compile("|".join(f"(?P<{name}>{opening})" for name, opening in openings.items()))


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
    """A value, its end, and whether its outermost bracket is closed."""

    value: object
    end: int
    is_closed: bool = True


def read_value(text: str, start: int) -> ParsedValue:
    """Parse the value that starts at `start`.

    Single quotes, trailing commas, comments, bare keys, Python's constants and raw line breaks in strings are
    repaired, and one closing brace may be missing where the text (or its code fence, or its tag) ends right
    after another one. Everything else must be JSON.

    Raises:
        UnreadableError: the value is missing or incomplete, or has a duplicate key.
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
    """Parse the object that starts at `start`, and return it with its end.

    Raises:
        UnreadableError: there is no object, or it is not closed.
    """
    parsed = read_value(text, start)
    if not isinstance(parsed.value, dict) or not parsed.is_closed:
        raise UnreadableError
    return parsed.value, parsed.end


def parse(text: str) -> object:
    """Parse JSON; line breaks in strings may be raw.

    Raises:
        UnreadableError: the text is not JSON, or has a duplicate key.
    """
    try:
        return _decoder.decode(text)
    except (ValueError, RecursionError):
        raise UnreadableError from None


def is_plain(value: object) -> bool:
    """Whether a value survives a JSON round trip: no infinity, no huge number, no lone surrogate."""
    try:
        return bool(orjson.loads(orjson.dumps(value)) == value)
    except (orjson.JSONEncodeError, orjson.JSONDecodeError):
        return False


def _strict_form(token: re.Match[str]) -> str:
    text = token[0]
    match token.lastgroup:
        case "text":
            return f'"{_ESCAPE.sub(lambda escape: _FIXED.get(escape[0], escape[0]), text[1:-1])}"'
        case "key":
            return f'"{text}"'
        case "word":
            return _WORDS.get(text, text)
        case _:
            return text


def _unique(pairs: list[tuple[str, object]]) -> JsonObject:
    unique = dict(pairs)
    if len(unique) < len(pairs):
        raise UnreadableError
    return unique


def _refuse(constant: str) -> object:
    raise UnreadableError(constant)


_decoder = json.JSONDecoder(strict=False, object_pairs_hook=_unique, parse_constant=_refuse)


_NAMES = ("tool", "name", "tool_name", "function", "function_name", "action")
_NAMES_OF_CALLS = ("tool", "tool_name", "function", "function_name")
"""Those that mean a call even without arguments; `{"name": "search"}` and `{"action": "submit"}` may be data."""
_ARGUMENTS = ("args", "arguments", "parameters", "params", "input", "tool_input", "tool_args", "action_input")
_THOUGHTS = ("thought", "thoughts", "reasoning")
_BESIDE = {"id", "call_id", "tool_call_id", "index", "type", *_THOUGHTS}
_TYPES = (None, "function", "function_call", "tool", "tool_call", "tool_use")
_WRAPPERS = ("function", "function_call", "tool_call")


def calls_in(
    value: object, tools: Collection[str], *, is_closed: bool = True, is_marked: bool = False
) -> tuple[ToolCall, ...]:
    """Return the calls of any tools in a JSON value, or none if any part of it is not a call.

    A call without arguments counts only if the value `is_closed`, since arguments could follow; so does an object whose
    only key is one of `tools`. `is_marked` means that the surrounding text marks a call.
    """
    items = _items(value)
    alone = _NAMES if is_marked or (isinstance(value, dict) and "tool_calls" in value) else _NAMES_OF_CALLS
    names_alone = alone if is_closed else ()
    calls = [_named_call(item, names_alone) or (_keyed_call(item, tools) if is_closed else None) for item in items]
    valid = tuple(call for call in calls if call is not None)
    return valid if len(valid) == len(items) else ()


def _items(value: object) -> list[object]:
    """Return the list that a value is or contains, or a list of the value alone."""
    if isinstance(value, dict) and isinstance(value.get("tool_calls"), list):
        is_message = value.keys() <= {"tool_calls", "role", "content"} and not value.get("content")
        return value["tool_calls"] if is_message else [None]
    return value if isinstance(value, list) else [value]


def _named_call(value: object, names_alone: Collection[str]) -> ToolCall | None:
    """Return the call of an object that has the tool's name under one key and its arguments under another.

    The arguments may be left out if the name is under one of `names_alone`.
    """
    if not isinstance(value, dict) or value.get("type") not in _TYPES:
        return None
    for wrapper in _WRAPPERS:
        if isinstance(value.get(wrapper), dict):
            inner_alone = _NAMES if names_alone else ()
            return _named_call(value[wrapper], inner_alone) if value.keys() <= {wrapper, *_BESIDE} else None
    names = [key for key in _NAMES if key in value]
    given = [key for key in _ARGUMENTS if key in value]
    if len(names) != 1 or len(given) > 1 or not value.keys() <= {*names, *given, *_BESIDE}:
        return None
    if not given and names[0] not in names_alone:
        return None
    name, args = value[names[0]], _arguments(value[given[0]]) if given else {}
    if not isinstance(name, str) or args is None:
        return None
    return ToolCall(name, args, reasoning=_thought(value))


def _keyed_call(value: object, tools: Collection[str]) -> ToolCall | None:
    """Return the call of an object whose only key is the tool's name."""
    if not isinstance(value, dict) or len(value) != 1:
        return None
    [(name, args)] = value.items()
    is_call = name in tools and isinstance(args, dict) and not _is_definition(args)
    return ToolCall(name, args) if is_call else None


def _arguments(value: object) -> JsonObject | None:
    """Return the arguments: an object, a JSON string of one, or {} for null and the empty string."""
    if isinstance(value, str) and value:
        try:
            value = parse(value)
        except UnreadableError:
            return None
    elif value in (None, ""):
        return {}
    return value if isinstance(value, dict) and not _is_definition(value) else None


def _is_definition(value: JsonObject) -> bool:
    """Whether the value is a schema of arguments instead of arguments."""
    is_schema = value.get("type") == "object" and isinstance(value.get("properties"), dict)
    return is_schema or {"description", "parameters"} <= value.keys()


def _thought(value: JsonObject) -> str | None:
    return next((value[key] for key in _THOUGHTS if isinstance(value.get(key), str) and value[key]), None)
