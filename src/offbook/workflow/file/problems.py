"""Problems of a workflow file: positions, the report that collects them, and pydantic errors in plain words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from offbook.errors import Problem, WorkflowError
from offbook.text import did_you_mean, shorten
from offbook.workflow.file.schema import (
    BUILTINS,
    COMMAND_PATTERN,
    HOST_PATTERN,
    STEP_TYPES,
    WorkflowDefinition,
)

DocumentPath: TypeAlias = tuple[str | int, ...]


class Position(NamedTuple):
    """A line and a column, both counted from 1; 0 if unknown."""

    line: int = 0
    column: int = 0


class Positions:
    """The positions in one document: of a mapping's entry its key, of a list's element its start."""

    def __init__(self, known: Mapping[DocumentPath, Position] | None = None) -> None:
        self._known = {} if known is None else known

    def of(self, path: DocumentPath) -> Position:
        """Return the position of `path`, or of the nearest enclosing path with a known position."""
        while path and path not in self._known:
            path = path[:-1]
        return self._known.get(path, Position())


def place_of(path: DocumentPath) -> str:
    """Return the path as text, like `steps[2].prompt`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


class ProblemReport:
    """Collects the problems of the document `source`."""

    def __init__(self, *, source: str = "", positions: Positions | None = None) -> None:
        self._source, self._positions = source, positions or Positions()
        self._problems: list[Problem] = []

    def add(self, path: DocumentPath, reason: str, *, hint: str = "", position: Position | None = None) -> None:
        """Add a problem at `path`; by default its position is looked up."""
        line, column = position or self._positions.of(path)
        self._problems.append(
            Problem(reason, place=place_of(path), line=line, column=column, hint=hint, source=self._source)
        )

    def include(self, error: WorkflowError) -> None:
        """Add all problems of another document."""
        self._problems.extend(error.problems)

    def conclude(self) -> None:
        """Raise the problems, in document order.

        Raises:
            WorkflowError: there are problems.
        """
        if self._problems:
            raise WorkflowError(sorted(self._problems, key=self._order))

    def _order(self, problem: Problem) -> tuple[bool, int, int]:
        return problem.source != self._source, problem.line, problem.column


Finding: TypeAlias = tuple[DocumentPath, str, str]
EXPECTED = {
    "string_type": "a string",
    "int_type": "an integer",
    "int_from_float": "an integer",
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


def report_validation_errors(error: ValidationError, document: object, report: ProblemReport) -> None:
    """Add all errors that pydantic found in `document` to the report."""
    for details in error.errors(include_url=False):
        if details["type"] == "too_short" and details["input"]:
            continue  # pydantic counts the valid elements only, and the invalid ones are reported
        path, reason, hint = _finding(details, document)
        report.add(path, reason, hint=hint)


def _finding(details: ErrorDetails, document: object) -> Finding:
    path = _document_path(details, document)
    kind, given = details["type"], details["input"]
    if kind == "extra_forbidden":
        return path, f"unknown field {path[-1]!r}", did_you_mean(str(path[-1]), _fields(details), kind="fields")
    if kind == "missing":
        return path, f"the field {details['loc'][-1]!r} is missing", ""
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        return _wrong_kind(path, given)
    if kind == "literal_error":
        return path, f"unknown value {show_value(given)}", literal_hint(details)
    return path, *_value_problem(details, path)


def _value_problem(details: ErrorDetails, path: DocumentPath) -> tuple[str, str]:
    """Return the reason and the hint for a value that its field does not accept."""
    kind, given, context = details["type"], details["input"], details.get("ctx", {})
    if kind in EXPECTED:
        hint = _boolean_hint(kind, given) or _brace_hint(kind, given)
        return f"expected {EXPECTED[kind]}, got {show_value(given)}", hint
    if kind in LIMITS:
        limit = next(iter(context.values()))
        return f"expected {LIMITS[kind]} {limit:g}, got {show_value(given)}", ""
    if kind in ("string_too_short", "too_short"):
        return "expected a value, got an empty one", ""
    if kind == "too_long":
        return f"expected at most {context['max_length']} elements, got {len(given)}", ""
    if kind == "string_pattern_mismatch":
        in_tools = ALLOWED.get(context["pattern"], PATTERNS["function"])
        expected = PATTERNS.get(str(path[-1]), PATTERNS["as"])
        return f"expected {in_tools if 'tools' in path else expected}, got {show_value(given)}", ""
    return details["msg"].removeprefix("Value error, "), ""


def _document_path(details: ErrorDetails, document: object) -> DocumentPath:
    """Return the path of the error in the document, without the union tags that pydantic adds for steps and tools."""
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


def _wrong_kind(path: DocumentPath, given: Any) -> Finding:
    """Return the problem of a step of unknown type, or of an unknown built-in tool."""
    field, known = ("builtin", BUILTINS) if "tools" in path[-2:] else ("type", STEP_TYPES)
    if not isinstance(given, Mapping):
        return path, f"expected a mapping, got {show_value(given)}", ""
    if field not in given:
        return path, f"the field {field!r} is missing", did_you_mean("", known, kind="types")
    hint = did_you_mean(str(given[field]), known, kind=f"{field}s")
    return (*path, field), f"unknown {field} {show_value(given[field])}", hint


def _fields(details: ErrorDetails) -> list[str]:
    """Return the known fields at the place of an unknown one."""
    model: Any = WorkflowDefinition
    for part in details["loc"][:-1]:
        model = STEP_TYPES.get(str(part)) or BUILTINS.get(str(part)) or _model_of(model, part) or model
    return [info.alias or name for name, info in model.model_fields.items()]


def _model_of(model: type[BaseModel], field: str | int) -> type[BaseModel] | None:
    """Return the pydantic model of a field, if it has one."""
    info = next((info for name, info in model.model_fields.items() if field in (name, info.alias)), None)
    return None if info is None else _inner_model(info.annotation)


def _inner_model(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    inner = (_inner_model(argument) for argument in getattr(annotation, "__args__", ()))
    return next((model for model in inner if model is not None), None)


def literal_hint(details: ErrorDetails) -> str:
    known = [word.strip("'") for word in details["ctx"]["expected"].replace(" or ", ", ").split(", ")]
    return did_you_mean(str(details["input"]), known, kind="one of")


def _boolean_hint(kind: str, given: object) -> str:
    is_word = isinstance(given, str) and given.lower() in ("yes", "no", "on", "off", "y", "n")
    return "write true or false" if kind == "bool_type" and is_word else ""


def _brace_hint(kind: str, given: object) -> str:
    """Return a hint for `{state.key}` without quotes, which YAML reads as a mapping without values."""
    if kind != "string_type" or not isinstance(given, Mapping) or list(given.values()) != [None]:
        return ""
    return f'quote it: "{{{next(iter(given))}}}"'


def show_value(given: object) -> str:
    """Return a value as messages show it."""
    if isinstance(given, Mapping):
        return "a mapping"
    if isinstance(given, list | tuple):
        return "a list"
    text = "nothing" if given is None else str(given).lower() if isinstance(given, bool) else repr(given)
    return shorten(text, 60)
