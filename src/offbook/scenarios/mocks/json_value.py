"""What a mock answers, as plain JSON."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

import msgspec
import orjson


def json_value(value: object) -> Any:
    """A copy of the value that consists of JSON alone.

    Dates, enums, dataclasses, Structs and pydantic models have their usual JSON, tuples are lists and sets
    are sorted.

    Raises:
        TypeError: something in it has no JSON.
    """
    return orjson.loads(orjson.dumps(value, default=_plain, option=orjson.OPT_NON_STR_KEYS))


def _plain(value: Any) -> object:
    """The value as one that has JSON. Called for those that have none of their own."""
    if isinstance(value, msgspec.Struct):
        return msgspec.to_builtins(value)
    if hasattr(type(value), "model_dump"):
        return value.model_dump(mode="json")
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Set):
        return sorted(value)
    raise TypeError
