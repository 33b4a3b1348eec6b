"""Problems of a workflow file: positions, the report that collects them, and pydantic errors in words."""

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
    """A line and a column, both from 1; 0 where they are not known."""

    line: int = 0
    column: int = 0


class Positions:
    """Where the parts of one document stand: an entry of a mapping at its key, an element of a list at its start."""

    def __init__(self, known: Mapping[DocumentPath, Position] | None = None) -> None:
        self._known = {} if known is None else known

    def of(self, path: DocumentPath) -> Position:
        """The position of `path`, or of the nearest part around it that is known."""
        while path and path not in self._known:
            path = path[:-1]
        return self._known.get(path, Position())


def place_of(path: DocumentPath) -> str:
    """The path as people write it: `steps[2].prompt`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


class ProblemReport:
    """Gathers what is wrong with the document of `source`."""

    def __init__(self, *, source: str = "", positions: Positions | None = None) -> None:
        self._source, self._positions = source, positions or Positions()
        self._problems: list[Problem] = []

    def add(self, path: DocumentPath, reason: str, *, hint: str = "", position: Position | None = None) -> None:
        """Note a problem at `path`, which stands where it is known to stand unless `position` is told."""
        line, column = position or self._positions.of(path)
        self._problems.append(Problem(reason, place_of(path), line, column, hint, self._source))

    def include(self, error: WorkflowError) -> None:
        """Note all problems of another document."""
        self._problems.extend(error.problems)

    def conclude(self) -> None:
        """Raise what was noted, in the order of the document.

        Raises:
            WorkflowError: something was.
        """
        if self._problems:
            raise WorkflowError(sorted(self._problems, key=self._order))

    def _order(self, problem: Problem) -> tuple[bool, int, int]:
        return problem.source != self._source, problem.line, problem.column


Finding: TypeAlias = tuple[DocumentPath, str, str]
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


def report_validation_errors(error: ValidationError, document: object, report: ProblemReport) -> None:
    """Note everything that pydantic complains of in `document`."""
    for details in error.errors(include_url=False):
        if details["type"] == "too_short" and details["input"]:
            continue  # only its elements that are well shaped were counted, and the others are told
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
        return path, f"unknown value {_show_value(given)}", _literal_hint(details)
    return path, *_value_problem(details, path)


def _value_problem(details: ErrorDetails, path: DocumentPath) -> tuple[str, str]:
    """The reason and the hint for a value that is not what its field takes."""
    kind, given, context = details["type"], details["input"], details.get("ctx", {})
    if kind in EXPECTED:
        return f"expected {EXPECTED[kind]}, got {_show_value(given)}", _boolean_hint(kind, given) or _brace_hint(
            kind, given
        )
    if kind in LIMITS:
        limit = next(iter(context.values()))
        return f"expected {LIMITS[kind]} {limit:g}, got {_show_value(given)}", ""
    if kind in ("string_too_short", "too_short"):
        return "expected something, got nothing", ""
    if kind == "too_long":
        return f"expected at most {context['max_length']} of them, got {len(given)}", ""
    if kind == "string_pattern_mismatch":
        in_tools = ALLOWED.get(context["pattern"], PATTERNS["function"])
        expected = PATTERNS.get(str(path[-1]), PATTERNS["as"])
        return f"expected {in_tools if 'tools' in path else expected}, got {_show_value(given)}", ""
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


def _wrong_kind(path: DocumentPath, given: Any) -> Finding:
    """A step of no known type, or a tool that is no known built-in."""
    field, known = ("builtin", BUILTINS) if "tools" in path[-2:] else ("type", STEP_TYPES)
    if not isinstance(given, Mapping):
        return path, f"expected a mapping, got {_show_value(given)}", ""
    if field not in given:
        return path, f"the field {field!r} is missing", did_you_mean("", known, kind="types")
    hint = did_you_mean(str(given[field]), known, kind=f"{field}s")
    return (*path, field), f"unknown {field} {_show_value(given[field])}", hint


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


def _show_value(given: object) -> str:
    """A value as a message shows it."""
    if isinstance(given, Mapping):
        return "a mapping"
    if isinstance(given, list | tuple):
        return "a list"
    text = "nothing" if given is None else str(given).lower() if isinstance(given, bool) else repr(given)
    return shorten(text, 60)
