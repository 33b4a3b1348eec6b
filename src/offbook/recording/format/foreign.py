"""Files given as a recording that are something else: their likely kind, and what to do with them."""

from __future__ import annotations

import re
from collections.abc import Collection

import msgspec
from msgspec import Raw

from offbook.decoding import decode
from offbook.errors import RecordingFormatError

FILE_HINT = 'a recording is like {"_version": 2, "greet": {"content": "Hello."}}; --record makes one'
_REPORT_HINT = "give the recording that the report is about: the file that --record wrote"
_KINDS = {
    "a regression file of explore": ({"offbook", "verdict"},),
    "a JSON report of explore": ({"version", "explored"},),
    "a JSON report of test": ({"version", "scenarios"},),
    "a JSON report of exec": ({"exit_code", "command", "mode"},),
    "a config of MCP servers": ({"mcpServers"},),
    "a file of npm": ({"dependencies"}, {"devDependencies"}, {"lockfileVersion"}),
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
_TEXT_KINDS = {
    "an HTML report": rb"(?is)\A\s*<(!doctype )?html.{0,4000}offbook",
    "an HTML page": rb"(?i)\A\s*<(!doctype )?html",
    "a JUnit report": rb"(?s)\A\s*<.{0,1000}<testsuite|\A\s*<testsuite",
    "an SVG picture": rb"(?s)\A\s*<.{0,1000}<svg|\A\s*<svg",
    "an XML file": rb"\A\s*<\?xml",
    "a PNG picture": rb"\A\x89PNG",
    "a database": rb"\ASQLite format 3\x00",
    "a workflow": rb"(?m)^steps:",
    "a config of offbook": rb"(?m)^\[(agent|agents|judge|user|recordings|redact)[].]",
    "a Python file": rb"(?m)^(from [\w.]+ import |import \w+|def \w+\()",
    "a cassette of vcrpy": rb"(?m)^interactions:",
    "a file of events": rb'\A\{"event": ?"',
}
_HINTS = {
    "a JSON report of explore": _REPORT_HINT,
    "a JSON report of test": _REPORT_HINT,
    "a JSON report of exec": _REPORT_HINT,
    "a JUnit report": _REPORT_HINT,
    "an HTML report": _REPORT_HINT,
    "a regression file of explore": "offbook replay --plan {source}",
    "a config of MCP servers": "offbook exec --replay PATH --mcp {source} -- COMMAND",
    "a database": "sqlite:///{source}",
    "a workflow": "offbook replay {source} --recording PATH",
    "a plan of faults": "offbook exec --replay PATH --plan {source} -- COMMAND",
}
_SEARCHED_BYTES = 100_000
_FIRST_LINE = re.compile(rb"\s*\{[^\n]*\}(?=\s*\n)")


def foreign_kind(keys: Collection[str]) -> str:
    """Return the likely kind of an object with these keys, or "" for a recording or an unknown kind."""
    kinds = _KINDS | _IMPORTED_KINDS
    return next((kind for kind, signs in kinds.items() if any(sign <= set(keys) for sign in signs)), "")


def foreign_text_kind(data: bytes) -> str:
    """Return the likely kind of a file that is not JSON: a report, a YAML cassette, JSON lines, or another file often
    found next to recordings; "" if unknown.
    """
    for kind, pattern in _TEXT_KINDS.items():
        if re.search(pattern, data[:_SEARCHED_BYTES]):
            return kind
    line = _FIRST_LINE.match(data)
    try:
        kind = foreign_kind(decode(line[0], dict[str, Raw])) if line else ""
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
    return kind if kind in _IMPORTED_KINDS else ""


def explain_import(data: bytes, *, source: str, expected: str) -> tuple[str, str] | None:
    """Return the problem with another tool's file given as `expected`, and how to import it.

    Returns None if its kind cannot be imported.
    """
    try:
        kind = foreign_kind(decode(data, dict[str, Raw]))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        kind = foreign_text_kind(data)
    return (f"looks like {kind}, not {expected}", _import_hint(source)) if kind in _IMPORTED_KINDS else None


def _import_hint(source: str) -> str:
    return f"offbook recording import {source} --output run.json"


def foreign_error(kind: str, *, source: str) -> RecordingFormatError:
    """Return the error for a file of that kind, with the command that imports it, if any."""
    own_hint = _HINTS[kind].format(source=source) if kind in _HINTS else FILE_HINT
    hint = _import_hint(source) if kind in _IMPORTED_KINDS else own_hint
    return RecordingFormatError(f"looks like {kind}, not a recording", source=source, hint=hint)
