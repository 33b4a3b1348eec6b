"""What recordings keep of a value that a tool takes or gives: its JSON, or where it has none, its text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from offbook.messages import JsonObject
from offbook.tools.result_text import result_text


class JsonForm(NamedTuple):
    """A JSON value that a model is told alike. `told_of` names the type of what `value` is only the text of."""

    value: Any
    told_of: str | None = None


def json_form(value: object) -> JsonForm:
    """The value as it is kept. Dataclasses, Structs, pydantic models and the like become objects and lists.

    What JSON knows only as text (a date, bytes, any other object) is kept as the text that a model is
    told of it. Never raises.
    """
    text = result_text(value)
    if not isinstance(value, str) and (_is_plain(value) or text.startswith(("{", "["))):
        try:
            kept = orjson.loads(text)
            if orjson.dumps(kept) == text.encode():
                return JsonForm(kept)
        except (TypeError, ValueError):  # no JSON, or nested too deep for it
            pass
    readable = text.encode(errors="replace").decode()
    return JsonForm(readable, None if isinstance(value, str) and readable == text else type(value).__name__)


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, int | float)


def json_arguments(arguments: Mapping[str, object]) -> JsonObject:
    """Arguments as they are kept."""
    return {name: json_form(value).value for name, value in arguments.items()}
