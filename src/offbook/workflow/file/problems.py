"""Problems of a workflow file: their positions, their report, and every place where it does not fit the schema."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import ge, gt, le
from typing import Any, NamedTuple, TypeAlias

from msgspec import inspect

from offbook.errors import Problem, WorkflowError
from offbook.text import did_you_mean, path_text, shorten

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


class ProblemReport:
    """Collects the problems of the document `source`."""

    def __init__(self, *, source: str = "", positions: Positions | None = None) -> None:
        self._source, self._positions = source, positions or Positions()
        self._problems: list[Problem] = []

    def add(self, path: DocumentPath, reason: str, *, hint: str = "", position: Position | None = None) -> None:
        """Add a problem at `path`; by default its position is looked up."""
        line, column = position or self._positions.of(path)
        self._problems.append(
            Problem(reason, place=path_text(path), line=line, column=column, hint=hint, source=self._source)
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
            raise WorkflowError(
                sorted(self._problems, key=lambda each: (each.source != self._source, each.line, each.column))
            )


def show_value(given: object) -> str:
    """Return a value as messages show it."""
    if isinstance(given, Mapping):
        return "a mapping"
    if isinstance(given, list | tuple):
        return "a list"
    text = "nothing" if given is None else str(given).lower() if isinstance(given, bool) else repr(given)
    return shorten(text, 60)


class Mismatch(NamedTuple):
    """A mistake at a place of a document, and how to fix it."""

    path: DocumentPath
    reason: str
    hint: str = ""


MAX_FLOAT = sys.float_info.max
Numeric: TypeAlias = inspect.IntType | inspect.FloatType
Kinds: TypeAlias = Sequence[inspect.StructType]
_EXPECTED: dict[type[inspect.Type], tuple[type | tuple[type, ...], str]] = {
    inspect.StrType: (str, "a string"),
    inspect.IntType: (int, "an integer"),
    inspect.FloatType: ((int, float), "a number"),
    inspect.BoolType: (bool, "true or false"),
    inspect.VarTupleType: ((list, tuple), "a list"),
    inspect.DictType: (dict, "a mapping"),
    inspect.StructType: (dict, "a mapping"),
}


def find_mismatches(document: object, schema: type) -> Iterator[Mismatch]:
    """Yield every mismatch between a document of plain values and a type that msgspec knows."""
    return _in_value(document, inspect.type_info(schema), ())


def _in_value(value: Any, kind: inspect.Type, path: DocumentPath, description: str = "") -> Iterator[Mismatch]:
    match kind:
        case inspect.Metadata():
            return _in_value(value, kind.type, path, (kind.extra_json_schema or {}).get("description", ""))
        case inspect.UnionType():
            return _in_union(value, kind, path, description)
        case inspect.LiteralType():
            return _in_literal(value, kind, path)
    if isinstance(value, getattr(kind, "cls", ())):
        return iter(())  # a definition that was built before
    classes, name = _EXPECTED.get(type(kind), (object, ""))
    if not isinstance(value, classes) or (isinstance(value, bool) and classes not in (bool, object)):
        reason = f"expected {name}, got {show_value(value)}"
        hint = _boolean_hint(kind, value) or _brace_hint(kind, value) or _dash_hint(kind, value)
        return iter([Mismatch(path, reason, hint)])
    return _in_fitting(value, kind, path, description)


def _in_fitting(value: Any, kind: inspect.Type, path: DocumentPath, description: str) -> Iterator[Mismatch]:
    """Yield the mismatches in a value of the right type."""
    match kind:
        case inspect.StructType():
            yield from _in_struct(value, kind, path)
        case inspect.VarTupleType():
            yield from _in_list(value, kind, path)
        case inspect.DictType():
            for key, inner in value.items():
                yield from _in_value(key, kind.key_type, (*path, key))
                yield from _in_value(inner, kind.value_type, (*path, key))
        case inspect.StrType():
            yield from _in_string(value, kind, path, description)
        case inspect.IntType() | inspect.FloatType():
            yield from _in_number(value, kind, path)


def _in_union(value: Any, kind: inspect.UnionType, path: DocumentPath, description: str) -> Iterator[Mismatch]:
    kinds = [inner for inner in kind.types if not isinstance(inner, inspect.NoneType)]
    if value is None and len(kinds) < len(kind.types):
        return iter(())
    if len(kinds) == 1:
        return _in_value(value, kinds[0], path, description)
    return _in_tagged(value, [inner for inner in kinds if isinstance(inner, inspect.StructType)], path)


def _in_tagged(value: Any, kinds: Kinds, path: DocumentPath) -> Iterator[Mismatch]:
    """Yield the mismatches in a value whose kind is in its tag, such as the `type` of a step."""
    field, by_tag = str(kinds[0].tag_field), {str(kind.tag): kind for kind in kinds}
    if any(isinstance(value, kind.cls) for kind in kinds):
        return
    if not isinstance(value, dict):
        yield Mismatch(path, f"expected a mapping, got {show_value(value)}")
    elif field not in value:
        yield _without_tag(value, field, by_tag, path)
    elif not isinstance(value[field], str) or value[field] not in by_tag:
        hint = did_you_mean(str(value[field]), by_tag, kind=f"{field}s")
        yield Mismatch((*path, field), f"unknown {field} {show_value(value[field])}", hint)
    else:
        yield from _in_struct(value, by_tag[value[field]], path)


def _without_tag(value: Mapping[str, Any], field: str, tags: Iterable[str], path: DocumentPath) -> Mismatch:
    for name in value:
        if hint := did_you_mean(str(name), [field]):
            return Mismatch((*path, name), f"unknown field {name!r}", hint)
    return Mismatch(path, f"the field {field!r} is missing", did_you_mean("", tags, kind=f"{field}s"))


def _in_struct(value: Mapping[str, Any], kind: inspect.StructType, path: DocumentPath) -> Iterator[Mismatch]:
    fields = {field.encode_name: field for field in kind.fields}
    known = [*fields, *([] if kind.tag_field is None else [kind.tag_field])]
    for name, inner in value.items():
        if name in fields:
            yield from _in_value(inner, fields[name].type, (*path, name))
        elif name not in known:
            yield Mismatch((*path, name), f"unknown field {name!r}", did_you_mean(str(name), known, kind="fields"))
    for name, field in fields.items():
        if field.required and name not in value:
            yield Mismatch(path, f"the field {name!r} is missing")


def _in_list(value: Sequence[Any], kind: inspect.VarTupleType, path: DocumentPath) -> Iterator[Mismatch]:
    if kind.min_length and not value:
        yield Mismatch(path, "expected a value, got an empty one")
    if kind.max_length is not None and len(value) > kind.max_length:
        yield Mismatch(path, f"expected at most {kind.max_length} elements, got {len(value)}")
    for index, element in enumerate(value):
        yield from _in_value(element, kind.item_type, (*path, index))


def _in_string(value: str, kind: inspect.StrType, path: DocumentPath, description: str) -> Iterator[Mismatch]:
    if kind.min_length and not value:
        yield Mismatch(path, "expected a value, got an empty one")
    if kind.pattern is not None and not re.search(kind.pattern, value):
        yield Mismatch(path, f"expected {description}, got {show_value(value)}")


def _in_number(value: float, kind: Numeric, path: DocumentPath) -> Iterator[Mismatch]:
    limits = (("more than", gt, kind.gt), ("at least", ge, kind.ge), ("at most", le, kind.le))
    if isinstance(kind, inspect.FloatType) and abs(value) > MAX_FLOAT:
        yield Mismatch(path, f"expected a number below {MAX_FLOAT:.0e}, got {show_value(value)}")
    for words, is_kept, limit in limits:
        if limit is not None and not is_kept(value, limit):
            yield Mismatch(path, f"expected {words} {limit:g}, got {show_value(value)}")


def _in_literal(value: object, kind: inspect.LiteralType, path: DocumentPath) -> Iterator[Mismatch]:
    if not isinstance(value, str) or value not in kind.values:
        hint = did_you_mean(str(value), map(str, kind.values), kind="one of")
        yield Mismatch(path, f"unknown value {show_value(value)}", hint)


def _boolean_hint(kind: inspect.Type, given: object) -> str:
    is_word = isinstance(given, str) and given.lower() in ("yes", "no", "on", "off", "y", "n")
    return "write true or false" if isinstance(kind, inspect.BoolType) and is_word else ""


def _dash_hint(kind: inspect.Type, given: object) -> str:
    """Return a hint for a list of objects that is written as a mapping of them."""
    if not isinstance(kind, inspect.VarTupleType) or not isinstance(given, Mapping) or not given:
        return ""
    if isinstance(kind.item_type, inspect.StrType):
        return ""
    is_named = all(isinstance(each, Mapping) for each in given.values())
    name = next(iter(given), "name") if is_named else "name"
    return f"begin each with a dash: - {{id: {name}, …}}"


def _brace_hint(kind: inspect.Type, given: object) -> str:
    """Return a hint for `{state.key}` without quotes, which YAML reads as a mapping without values."""
    if not isinstance(kind, inspect.StrType) or not isinstance(given, Mapping) or list(given.values()) != [None]:
        return ""
    return f'quote it: "{{{next(iter(given))}}}"'
