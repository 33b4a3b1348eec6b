"""Formats the fields of a value as words on one line, like `500 body=busy`, and parses them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Annotated, Any, get_args, get_origin

import msgspec
from msgspec import NODEFAULT, Struct
from msgspec.structs import FieldInfo
from msgspec.structs import fields as struct_fields

_PLAIN = re.compile(r"[\w./+-]+")
_NAME = re.compile(r'([A-Za-z_][^\s="]*)=')
_SPACE = re.compile(r"\s+")
_TEXT = (str, str | None)
_EXACT_INTEGER = 2.0**53
_scan_json = json.JSONDecoder().raw_decode


def join_words(words: Iterable[tuple[str, str]]) -> str:
    """Join words to one line, which `split_words` splits."""
    return " ".join(f"{name}={value}" if name else value for name, value in words)


def split_words(line: str) -> Iterator[tuple[str, str]]:
    """Yield each word of a line: its name, or an empty str, and the text of its value."""
    at = 0
    line = line.strip()
    while at < len(line):
        name = _NAME.match(line, at)
        start = name.end() if name else at
        end = _value_end(line, start)
        yield name[1] if name else "", line[start:end]
        space = _SPACE.match(line, end)
        at = space.end() if space else end


def _value_end(line: str, start: int) -> int:
    """Return the end of the value at `start`: after its JSON if it is in quotes or brackets, else before a space."""
    space = _SPACE.search(line, start)
    end = space.start() if space else len(line)
    if line[start : start + 1] not in ('"', "{", "["):
        return end
    try:
        json_end = _scan_json(line, start)[1]
    except (json.JSONDecodeError, RecursionError):
        return end
    return json_end if json_end == len(line) or line[json_end].isspace() else end


def parse_value(word: str, kind: Any) -> Any:
    """Parse the value of a field of type `kind`."""
    if _is_text(kind) and not word.startswith('"'):
        return word
    try:
        return msgspec.json.decode(word)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return word


def _is_text(kind: Any) -> bool:
    return (get_args(kind)[0] if get_origin(kind) is Annotated else kind) in _TEXT


def field_words(value: Struct) -> Iterator[tuple[str, str]]:
    """Yield a word for each field of `value` that is not at its default."""
    for info in _fields_of(type(value)):
        field = getattr(value, info.name)
        if field == _default(info):
            continue
        if get_origin(info.type) is dict:
            yield from _entry_words(info, field)
        else:
            yield info.encode_name, _format_value(field, info.type)


@cache
def _fields_of(kind: type[Struct]) -> tuple[FieldInfo, ...]:
    return struct_fields(kind)


def _entry_words(info: FieldInfo, entries: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if all(_PLAIN.fullmatch(name) for name in entries):
        kind = get_args(info.type)[1]
        for name, entry in entries.items():
            yield f"{info.encode_name}.{name}", _format_value(entry, kind)
    else:
        yield info.encode_name, _json(entries)


def _format_value(value: Any, kind: Any) -> str:
    """Format a value so that `parse_value` returns it."""
    if isinstance(value, str) and _PLAIN.fullmatch(value) and parse_value(value, kind) == value:
        return value
    if kind is not Any and isinstance(value, float) and value.is_integer() and abs(value) < _EXACT_INTEGER:
        return str(int(value))
    return _json(value)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _default(info: FieldInfo) -> Any:
    return info.default if info.default_factory is NODEFAULT else info.default_factory()
