"""Marks: what the texts of an injected fault carry in an exploration, so that they can be recognised later."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from offbook.faults.site import PlannedFault

_DIGITS = 6


def mark_of(line: PlannedFault) -> str:
    """Return the mark of a line of a plan, like `fault-3f9c1a`: the same for the same line."""
    return f"fault-{sha256(str(line).encode('utf-8', 'replace')).hexdigest()[:_DIGITS]}"


def add_mark(text: str, mark: str) -> str:
    """Return `text` with the mark at its end, or inside it if it is JSON, so that it stays JSON.

    Without a mark, and if there is no text that could carry one, the text is returned as it is.
    """
    if not mark or not text.strip():
        return text
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return f"{text} {mark}"
    return orjson.dumps(_mark_json(value, mark)).decode()


def _mark_json(value: Any, mark: str) -> Any:
    """Return the JSON value with the mark: in its error message if it has one, else as a further item."""
    match value:
        case {"error": dict(error)}:
            return value | {"error": _mark_json(error, mark)}
        case {"message": str(message)}:
            return value | {"message": f"{message} {mark}"}
        case dict():
            return value | {"mark": mark}
        case list():
            return [*value, mark]
        case str():
            return f"{value} {mark}"
        case _:
            return value
