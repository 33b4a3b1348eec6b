"""Values of any kind as JSON: the same bytes for the same values, and never an error."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

import msgspec
from msgspec import Struct

from offbook.tools.result_text import result_text

MAX_DEPTH = 100
Plain: TypeAlias = str | int | float | bool | list["Plain"] | dict[str, "Plain"] | None


def encoded(value: object) -> bytes:
    """The value as JSON: fields of Structs as they are declared, other keys and sets sorted.

    What JSON does not know is told as text: numbers that are not finite are null, half characters are marked,
    and what is nested too deep, or inside itself, is cut.
    """
    try:
        return msgspec.json.encode(value, enc_hook=result_text, order="deterministic")
    except (TypeError, ValueError, RecursionError):
        return msgspec.json.encode(_plain(value, MAX_DEPTH))


def _plain(value: object, depth: int) -> Plain:
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Struct | Mapping | list | tuple):
        return _plain_parts(value, depth - 1) if depth else "…"
    return _text(result_text(value))


def _plain_parts(value: Struct | Mapping[object, object] | list[object] | tuple[object, ...], depth: int) -> Plain:
    if isinstance(value, Struct):
        return {name: _plain(each, depth) for name, each in _fields(value)}
    if isinstance(value, Mapping):
        plain = {_text(result_text(key)): _plain(each, depth) for key, each in value.items()}
        return dict(sorted(plain.items()))
    return [_plain(each, depth) for each in value]


def _fields(value: Struct) -> Iterator[tuple[str, object]]:
    """The fields as they are named in JSON, behind what tells the type where that is told."""
    if value.__struct_config__.tag_field is not None:
        yield value.__struct_config__.tag_field, value.__struct_config__.tag
    for name, told_as in zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True):
        yield told_as, getattr(value, name)


def _text(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
