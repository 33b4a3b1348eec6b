"""The text that a model gets for the return value of a tool."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set, ValuesView
from typing import Any

import msgspec
import orjson

_ADDRESS = re.compile(r"(?: object)? at 0x[0-9a-fA-F]+(?=>)")


def result_text(value: object) -> str:
    """Return text unchanged, and everything else as JSON.

    Dates, enums, dataclasses, Structs and pydantic models have their usual JSON, sets are sorted, and JSON that is
    only a string has no quotes around it. Bytes are described by their length, and objects without JSON by `str`,
    without their address in memory. Never raises.
    """
    if isinstance(value, str):
        return str.__str__(value)
    try:
        json = orjson.dumps(value, default=_plain, option=orjson.OPT_NON_STR_KEYS)
    except TypeError:
        return plain_str(value)
    return str(orjson.loads(json)) if json.startswith(b'"') else json.decode()


def plain_str(value: object) -> str:
    """Return the value by `str` without addresses in memory, or its type if that fails."""
    try:
        return _ADDRESS.sub("", str(value))
    except Exception:
        return f"<{type(value).__name__} that cannot be shown>"


def _plain(value: Any) -> object:
    """Convert a value that orjson does not know to one that it does."""
    if isinstance(value, msgspec.Struct):
        return orjson.Fragment(msgspec.json.encode(value, enc_hook=_plain))
    if hasattr(type(value), "model_dump_json"):
        return orjson.Fragment(value.model_dump_json())
    if isinstance(value, bytes | bytearray | memoryview):
        return f"<{len(value)} bytes>"
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Set):
        return _sorted(value)
    return list(value) if isinstance(value, Sequence | ValuesView) else plain_str(value)


def _sorted(values: Set[Any]) -> list[object]:
    try:
        return sorted(values)
    except TypeError:
        return sorted(values, key=result_text)
