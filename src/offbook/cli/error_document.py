"""What a command that was to print JSON prints when there is no result."""

from __future__ import annotations

import orjson

TOLD = ("reason", "source", "place", "hint", "kind", "key", "difference", "struck")


def error_document(error: Exception, *, exit_code: int) -> bytes:
    """The error as one JSON document: its type, its message, the exit code, and what else it carries."""
    more = {name: value for name in TOLD if (value := getattr(error, name, None))}
    return told_ending(type(error).__name__, str(error), exit_code=exit_code, **more)


def told_ending(type: str, message: str, *, exit_code: int, **more: object) -> bytes:
    """The document of a command that ended without a result."""
    told = {"type": type, "message": message, "exit_code": exit_code, **more}
    return orjson.dumps({"status": "error", "error": told})
