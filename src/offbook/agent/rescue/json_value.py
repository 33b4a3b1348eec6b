"""JSON as models write it, read from within a text."""

from __future__ import annotations

import json
import re

import orjson
from msgspec import Struct

from offbook.agent.rescue.found import UnreadableError
from offbook.messages import JsonObject

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


class Value(Struct, frozen=True):
    """A value, where it ends, and whether its outermost bracket was closed there."""

    value: object
    end: int
    is_closed: bool = True


def read_value(text: str, start: int) -> Value:
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
            return Value(parse("".join(pieces)), pos)
    if depth == 1 and pieces[0] == "{" and pieces[-1] == "}" and _END.match(text, pos):
        return Value(parse("".join([*pieces, "}"])), pos, is_closed=False)
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
