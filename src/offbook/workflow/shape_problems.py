"""What pydantic finds wrong with a document, in words for whoever wrote it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from offbook.wording import did_you_mean
from offbook.workflow.builtin_tools.allowed_hosts import HOST_PATTERN
from offbook.workflow.builtin_tools.command_line import COMMAND_PATTERN
from offbook.workflow.positions import DocumentPath
from offbook.workflow.report import Report
from offbook.workflow.schema import STEP_TYPES, WorkflowDefinition
from offbook.workflow.tool_definition import BUILTINS

Complaint: TypeAlias = tuple[DocumentPath, str, str]
EXPECTED = {
    "string_type": "a text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}
PATTERNS = {
    "function": "'module:function'",
    "output": "a path of letters, digits and '_' like 'answer' or 'answer.text'",
    "collect": "a path of letters, digits and '_' like 'answer' or 'answer.text'",
    "as": "a name of letters, digits and '_'",
}
ALLOWED = {
    HOST_PATTERN: "a host like 'example.com', '*.example.com' or '127.0.0.1:8080'",
    COMMAND_PATTERN: "the bare name of a command",
}
LIMITS = {"greater_than": "more than", "greater_than_equal": "at least", "less_than_equal": "at most"}


def report_shape(error: ValidationError, document: object, report: Report) -> None:
    """Note everything that pydantic complains of in `document`."""
    for details in error.errors(include_url=False):
        if details["type"] == "too_short" and details["input"]:
            continue  # only its elements that are well shaped were counted, and the others are told
        path, reason, hint = _complaint(details, document)
        report.add(path, reason, hint=hint)


def _complaint(details: ErrorDetails, document: object) -> Complaint:
    path = _document_path(details, document)
    kind, given = details["type"], details["input"]
    if kind == "extra_forbidden":
        return path, f"unknown field {path[-1]!r}", did_you_mean(str(path[-1]), _fields(details), kind="fields")
    if kind == "missing":
        return path, f"the field {details['loc'][-1]!r} is missing", ""
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        return _wrong_kind(path, given)
    if kind == "literal_error":
        return path, f"unknown value {_shown(given)}", _literal_hint(details)
    return path, *_misfit(details, path)


def _misfit(details: ErrorDetails, path: DocumentPath) -> tuple[str, str]:
    """The reason and the hint for a value that is not what its field takes."""
    kind, given, context = details["type"], details["input"], details.get("ctx", {})
    if kind in EXPECTED:
        return f"expected {EXPECTED[kind]}, got {_shown(given)}", _boolean_hint(kind, given) or _brace_hint(kind, given)
    if kind in LIMITS:
        limit = next(iter(context.values()))
        return f"expected {LIMITS[kind]} {limit:g}, got {_shown(given)}", ""
    if kind in ("string_too_short", "too_short"):
        return "expected something, got nothing", ""
    if kind == "too_long":
        return f"expected at most {context['max_length']} of them, got {len(given)}", ""
    if kind == "string_pattern_mismatch":
        in_tools = ALLOWED.get(context["pattern"], PATTERNS["function"])
        expected = PATTERNS.get(str(path[-1]), PATTERNS["as"])
        return f"expected {in_tools if 'tools' in path else expected}, got {_shown(given)}", ""
    return details["msg"].removeprefix("Value error, "), ""


def _document_path(details: ErrorDetails, document: object) -> DocumentPath:
    """Where the error is in the document: pydantic also names which kind of step or tool it took it for."""
    path: DocumentPath = ()
    inside: Any = document
    is_tagged = False
    for part in details["loc"]:
        entries = dict(enumerate(inside)) if isinstance(inside, list) else inside if isinstance(inside, dict) else {}
        if not is_tagged and part in (entries.get("type"), entries.get("builtin")):
            is_tagged = True
        elif part in entries:
            path, inside, is_tagged = (*path, part), entries[part], False
    return path


def _wrong_kind(path: DocumentPath, given: Any) -> Complaint:
    """A step of no known type, or a tool that is no known built-in."""
    field, known = ("builtin", BUILTINS) if "tools" in path[-2:] else ("type", STEP_TYPES)
    if not isinstance(given, Mapping):
        return path, f"expected a mapping, got {_shown(given)}", ""
    if field not in given:
        return path, f"the field {field!r} is missing", did_you_mean("", known, kind="types")
    hint = did_you_mean(str(given[field]), known, kind=f"{field}s")
    return (*path, field), f"unknown {field} {_shown(given[field])}", hint


def _fields(details: ErrorDetails) -> list[str]:
    """The fields that there are where an unknown one was found."""
    model: Any = WorkflowDefinition
    for part in details["loc"][:-1]:
        model = STEP_TYPES.get(str(part)) or BUILTINS.get(str(part)) or _model_of(model, part) or model
    return [info.alias or name for name, info in model.model_fields.items()]


def _model_of(model: type[BaseModel], field: str | int) -> type[BaseModel] | None:
    """The model inside a field, if there is one."""
    info = next((info for name, info in model.model_fields.items() if field in (name, info.alias)), None)
    return None if info is None else _inner_model(info.annotation)


def _inner_model(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    inner = (_inner_model(argument) for argument in getattr(annotation, "__args__", ()))
    return next((model for model in inner if model is not None), None)


def _literal_hint(details: ErrorDetails) -> str:
    known = [word.strip("'") for word in details["ctx"]["expected"].replace(" or ", ", ").split(", ")]
    return did_you_mean(str(details["input"]), known, kind="one of")


def _boolean_hint(kind: str, given: object) -> str:
    is_word = isinstance(given, str) and given.lower() in ("yes", "no", "on", "off", "y", "n")
    return "write true or false" if kind == "bool_type" and is_word else ""


def _brace_hint(kind: str, given: object) -> str:
    """What `{state.key}` without quotes is to YAML: a mapping without values."""
    if kind != "string_type" or not isinstance(given, Mapping) or list(given.values()) != [None]:
        return ""
    return f'quote it: "{{{next(iter(given))}}}"'


def _shown(given: object) -> str:
    """A value as a message shows it."""
    if isinstance(given, Mapping):
        return "a mapping"
    if isinstance(given, list | tuple):
        return "a list"
    text = "nothing" if given is None else str(given).lower() if isinstance(given, bool) else repr(given)
    return text if len(text) <= 60 else text[:59] + "…"
