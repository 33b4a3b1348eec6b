"""What pydantic finds wrong with a section of a config, in words for whoever wrote it."""

from __future__ import annotations

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from offbook.config.schema import REFERENCE_PATTERN
from offbook.errors import InputError
from offbook.wording import did_you_mean
from offbook.workflow.config_definition import Definition
from offbook.workflow.shape_problems import EXPECTED, LIMITS

MAX_SHOWN_CHARS = 60


def problem_of(error: ValidationError, kind: type[Definition], *, source: str, place: str) -> InputError:
    """The first thing that is wrong with the section at `place`, which should be of this kind."""
    details = error.errors(include_url=False)[0]
    path = ".".join([place, *map(str, details["loc"])])
    reason, hint = _complaint(details, kind)
    return InputError(reason, source=source, place=path, hint=hint)


def _complaint(details: ErrorDetails, kind: type[Definition]) -> tuple[str, str]:
    reason, name, given = details["type"], str(details["loc"][-1]), _shown(details["input"])
    if reason == "extra_forbidden":
        return f"unknown key {name!r}", did_you_mean(name, kind.model_fields, kind="keys")
    if reason == "missing":
        return "it is missing", ""
    if reason == "literal_error":
        known = details["ctx"]["expected"].replace("'", "").replace(" or ", ", ").split(", ")
        return f"unknown value {given}", did_you_mean(str(details["input"]), known, kind="one of")
    return _misfit(details, given), ""


def _misfit(details: ErrorDetails, given: str) -> str:
    kind, context = details["type"], details.get("ctx", {})
    if kind in EXPECTED:
        return f"expected {EXPECTED[kind].replace('mapping', 'table')}, got {given}"
    if kind in LIMITS:
        return f"expected {LIMITS[kind]} {next(iter(context.values())):g}, got {given}"
    if kind == "string_pattern_mismatch" and context["pattern"] == REFERENCE_PATTERN:
        return f"expected 'module:name', got {given}"
    if kind == "string_too_short":
        return "expected something, got nothing"
    return f"{details['msg']}, got {given}"


def _shown(given: object) -> str:
    if isinstance(given, dict):
        return "a table"
    if isinstance(given, list | tuple):
        return "a list"
    text = str(given).lower() if isinstance(given, bool) else repr(given)
    return text if len(text) <= MAX_SHOWN_CHARS else f"{text[: MAX_SHOWN_CHARS - 1]}…"
