"""Reads YAML 1.2 strictly into plain values with positions; anchors, aliases, tags and merge keys are errors."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from math import isfinite
from typing import TypeAlias

import yaml
from yaml import events

from offbook.errors import Problem, WorkflowError
from offbook.workflow.file.problems import DocumentPath, Position, Positions, ProblemReport

NULLS = frozenset({"", "~", "null", "Null", "NULL"})
BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
MAX_DIGITS = 19
_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


def plain_value(word: str) -> str | int | float | bool | None:
    """Return the value of an unquoted scalar: only `true` and `false` are booleans; `yes`, `on` and `1:30` are strings.

    Raises:
        ValueError: it is a number that JSON cannot represent.
    """
    if word in NULLS:
        return None
    if word in BOOLEANS:
        return BOOLEANS[word]
    if _INTEGER.fullmatch(word):
        return _integer(word)
    if _NUMBER.fullmatch(word):
        value = float(word)
        if not isfinite(value):
            raise ValueError(f"the number {word[:20]} is too large")
        return value
    if _NOT_FINITE.fullmatch(word):
        raise ValueError(f"{word} is not a finite number")
    return word


def _integer(word: str) -> int:
    if len(word) > MAX_DIGITS + 2:
        raise ValueError(f"the number {word[:20]}… is too large")
    value = int(word, 0) if word[:2] in ("0o", "0x") else int(word)
    if not -(2**63) <= value < 2**63:
        raise ValueError(f"the number {word} is too large")
    return value


Value: TypeAlias = "str | int | float | bool | list[Value] | dict[str, Value] | None"
MAX_BYTES = 1_000_000
MAX_DEPTH = 50


def read_yaml(text: str, *, source: str) -> tuple[Value, Positions]:
    """Parse the document in `text`, and return it with the positions of its parts.

    Raises:
        WorkflowError: the text is too long, not YAML, or has anchors, aliases, tags, merge keys, keys that are
            duplicates or not strings, numbers that JSON cannot represent, several documents or more than 50 levels.
    """
    size = len(text.encode(errors="replace"))
    if size > MAX_BYTES:
        raise WorkflowError([Problem(f"the file has {size} bytes, more than {MAX_BYTES}", source=source)])
    reader = _Reader(text, source)
    try:
        return reader.read()
    except yaml.YAMLError as error:
        raise WorkflowError([_syntax_problem(error, text, source)]) from None
    except UnicodeEncodeError as error:
        raise WorkflowError([Problem(f"the text is not Unicode: {error.reason}", source=source)]) from None


class _Reader:
    """Builds plain values from the events of the parser; a file cannot name a type to construct."""

    def __init__(self, text: str, source: str) -> None:
        self._text = text
        self._known: dict[DocumentPath, Position] = {}
        self._positions = Positions(self._known)
        self._report = ProblemReport(source=source)

    def read(self) -> tuple[Value, Positions]:
        self._events: Iterator[yaml.Event] = yaml.parse(self._text, Loader=yaml.CSafeLoader)
        next(self._events)
        value: Value = None
        if isinstance(event := next(self._events), events.DocumentStartEvent):
            value = self._value(next(self._events), ())
            next(self._events)
            event = next(self._events)
        if isinstance(event, events.DocumentStartEvent):
            self._refuse(event, (), "a second document begins here", "a file holds one workflow")
        self._report.conclude()
        return value, self._positions

    def _value(self, event: yaml.Event, path: DocumentPath) -> Value:
        self._known.setdefault(path, _position(event))
        self._check(event, path)
        if isinstance(event, events.MappingStartEvent):
            return self._mapping(path)
        if isinstance(event, events.SequenceStartEvent):
            return self._sequence(path)
        return self._scalar(event, path) if isinstance(event, events.ScalarEvent) else None

    def _check(self, event: yaml.Event, path: DocumentPath) -> None:
        if len(path) > MAX_DEPTH:
            self._refuse(event, path[:3], f"nested more than {MAX_DEPTH} levels deep")
            self._report.conclude()
        if isinstance(event, events.AliasEvent):
            self._refuse(event, path, f"the alias *{event.anchor} is not allowed", "write the value out")
        elif anchor := getattr(event, "anchor", None):
            self._refuse(event, path, f"the anchor &{anchor} is not allowed", "write the value out")
        if tag := getattr(event, "tag", None):
            self._refuse(event, path, f"the tag {tag} is not allowed", "write plain YAML; quote strings")

    def _sequence(self, path: DocumentPath) -> Value:
        elements: list[Value] = []
        while not isinstance(event := next(self._events), events.SequenceEndEvent):
            elements.append(self._value(event, (*path, len(elements))))
        return elements

    def _mapping(self, path: DocumentPath) -> Value:
        entries: dict[str, Value] = {}
        while not isinstance(event := next(self._events), events.MappingEndEvent):
            key = self._key(event, path)
            inside = (*path, key)
            if key in entries:
                first = self._known[inside]
                self._refuse(event, inside, f"duplicate key {key!r}, first in line {first.line}")
            else:
                self._known[inside] = _position(event)
            entries[key] = self._value(next(self._events), inside)
        return entries

    def _key(self, event: yaml.Event, path: DocumentPath) -> str:
        is_nested = isinstance(event, events.CollectionStartEvent)
        key = self._value(event, (*path, "") if is_nested else path)
        if key == "<<":
            self._refuse(event, path, "the merge key << is not allowed", "write the entries out")
        elif not isinstance(key, str):
            self._refuse(event, path, f"the key {_show_key(key)} is not a string", "quote it to make it a string")
        return str(key)

    def _scalar(self, event: events.ScalarEvent, path: DocumentPath) -> Value:
        if not event.implicit[0]:
            return str(event.value)
        try:
            return plain_value(event.value)
        except ValueError as error:
            self._refuse(event, path, str(error), "quote it to make it a string")
            return None

    def _refuse(self, event: yaml.Event, path: DocumentPath, reason: str, hint: str = "") -> None:
        """Report a problem at the position of the event, which may differ from that of `path`."""
        self._report.add(path, reason, hint=hint, position=_position(event))


def _position(event: yaml.Event) -> Position:
    mark = event.start_mark
    return Position() if mark is None else Position(mark.line + 1, mark.column + 1)


def _show_key(key: Value) -> str:
    return "with several parts" if isinstance(key, list | dict) else json.dumps(key)


def _syntax_problem(error: yaml.YAMLError, text: str, source: str) -> Problem:
    """Return the parser's error in one line."""
    mark = getattr(error, "problem_mark", None)
    reason = getattr(error, "problem", None) or getattr(error, "reason", None) or "syntax error"
    if mark is None:
        return Problem(f"not YAML: {reason}", source=source)
    lines = text.splitlines()
    line = lines[mark.line] if mark.line < len(lines) else ""
    hint = "indent with spaces, not with tabs" if "\t" in line[: mark.column + 1] else ""
    if "mapping values are not allowed" in reason:
        hint = hint or "quote the string: a colon followed by a space starts a mapping"
    if reason.endswith(("expected key", "'-' indicator")):
        hint = hint or "indent this line like those that it belongs to"
    return Problem(f"not YAML: {reason}", line=mark.line + 1, column=mark.column + 1, hint=hint, source=source)
