"""Failed tool results: one rule for tools of this process, of programs, and over MCP."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from offbook.messages import result_text
from offbook.text import compile_pattern

_FAILED_TEXT = re.compile(
    r"\s*(?:Error(?: (?:executing|running|calling|invoking) (?:the )?tool\b[^\n:]{0,200})?:"
    r"|An error occurred while running the tool\b|(?:\w+\.)*\w*(?:Error|Exception): )"
)
"""The beginnings of texts that frameworks and loops return for a tool that raised."""

MAX_PARSED_CHARS = 1 << 20
"""A longer text is not parsed: failures are short."""


def is_failed_result(result: Any, declared: str | None = None) -> bool:
    """Return whether a result means that the tool failed, and so changed nothing.

    It does if the text matches the `declared` pattern, or if the result has the shape of an error: an object whose
    first field is `error`, or with `is_error: true`, `ok: false` or `success: false`; a text that begins with `Error:`
    or the name of an exception.
    """
    text = result if isinstance(result, str) else None
    if declared is not None:
        text = result_text(result) if text is None else text
        if compile_pattern(declared).is_in(text):
            return True
    if text is None:
        return isinstance(result, dict) and _is_failed_object(result)
    if _FAILED_TEXT.match(text):
        return True
    if len(text) > MAX_PARSED_CHARS or not text.lstrip().startswith("{"):
        return False
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return False
    return isinstance(value, dict) and _is_failed_object(value)


def _is_failed_object(value: dict[str, Any]) -> bool:
    if any(value.get(name) is True for name in ("is_error", "isError")):
        return True
    if any(value.get(name) is False for name in ("ok", "success")):
        return True
    first = next(iter(value), "")
    return (first == "error" and bool(value[first])) or (first == "status" and value[first] == "error")
