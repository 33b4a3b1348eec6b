"""Files that are given as a recording and are none: what they look like, and what to do with them."""

from __future__ import annotations

import re
from collections.abc import Collection

import msgspec
from msgspec import Raw

from offbook.errors import RecordingFormatError

FILE_HINT = 'a recording is like {"_version": 2, "greet": {"content": "Hello."}}; --record makes one'
_KINDS = {
    "an API response": (
        {"choices"},
        {"candidates"},
        {"object", "data"},
        {"object", "output"},
        {"role", "content"},
        {"done", "message"},
    ),
    "an API request": ({"model", "messages"}, {"model", "input"}, {"contents"}),
    "a plan of faults": ({"faults"}, {"chaos"}),
}
_IMPORTED_KINDS = {
    "a HAR archive": ({"log"},),
    "fixtures of aimock": ({"fixtures"},),
    "a cassette of vcrpy": ({"interactions"},),
    "a file of spans": ({"resourceSpans"}, {"resourceLogs"}, {"traceId", "spanId"}, {"trace_id", "span_id"}),
}
_CASSETTE = re.compile(rb"^interactions:", re.MULTILINE)
_FIRST_LINE = re.compile(rb"\s*\{[^\n]*\}(?=\s*\n)")


def foreign_kind(keys: Collection[str]) -> str:
    """Return what an object with these keys looks like if not like a recording; empty if like nothing known."""
    kinds = _KINDS | _IMPORTED_KINDS
    return next((kind for kind, signs in kinds.items() if any(sign <= set(keys) for sign in signs)), "")


def foreign_text_kind(data: bytes) -> str:
    """Return what a file that is not JSON looks like: a cassette in YAML, or JSON lines; empty if nothing is known."""
    if _CASSETTE.search(data):
        return "a cassette of vcrpy"
    line = _FIRST_LINE.match(data)
    try:
        kind = foreign_kind(msgspec.json.decode(line[0], type=dict[str, Raw])) if line else ""
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
    return kind if kind in _IMPORTED_KINDS else ""


def explain_import(data: bytes, *, source: str, expected: str) -> tuple[str, str] | None:
    """Return what is wrong with a file of another tool that was given as `expected`, and how to make a recording of it.

    Returns None if it is of no kind that can be imported.
    """
    try:
        kind = foreign_kind(msgspec.json.decode(data, type=dict[str, Raw]))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        kind = foreign_text_kind(data)
    return (f"looks like {kind}, not {expected}", _import_hint(source)) if kind in _IMPORTED_KINDS else None


def _import_hint(source: str) -> str:
    return f"offbook recording import {source} --output run.json"


def foreign_error(kind: str, *, source: str) -> RecordingFormatError:
    """Return the error for a file of that kind, with the command that makes a recording of it, if there is one."""
    hint = _import_hint(source) if kind in _IMPORTED_KINDS else FILE_HINT
    return RecordingFormatError(f"looks like {kind}, not a recording", source=source, hint=hint)
