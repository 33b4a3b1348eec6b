"""Lies of tools: plausible results that are not true. They are made from answers that the run, or its recording, has.

No model is needed. A lie about which nothing is known, such as an earlier answer where there is none, does not fire.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterator
from copy import deepcopy
from datetime import date, timedelta
from typing import Any, ClassVar, Self
from zlib import crc32

import msgspec
import orjson

from offbook.decoding import convert
from offbook.faults.fault import FaultTrait, FaultVariant
from offbook.faults.tools import EndedCall, ToolFault
from offbook.messages import result_text


class Lie(ToolFault, frozen=True):
    """The tool returns a plausible result that is not true."""

    traits: ClassVar[frozenset[FaultTrait]] = frozenset({"lies"})
    names_fields: ClassVar[bool] = False
    """Whether it concerns one field of the result: an exploration tries it on those that the run uses later."""

    @classmethod
    def variants(cls) -> tuple[FaultVariant[Self], ...]:
        name = str(cls.__struct_config__.tag)
        return (FaultVariant(name, cls(), is_optional=True, is_of_fields=cls.names_fields),)

    @abstractmethod
    def outcome(self, call: EndedCall) -> object:
        """Return the lie, or the very result of the call if there is none to tell."""


class ToolStale(Lie, frozen=True, tag="tool_stale"):
    """Runs the tool, and returns the latest earlier answer of the same tool that differs."""

    def outcome(self, call: EndedCall) -> object:
        earlier = [each for each in call.known if each.is_of_run and each.result != call.result]
        same = [each for each in earlier if each.arguments == call.arguments]
        return next((each.result for each in reversed(same or earlier)), call.result)


class ToolOther(Lie, frozen=True, tag="tool_other"):
    """Runs the tool, and returns its answer to other arguments."""

    def outcome(self, call: EndedCall) -> object:
        others = [each for each in call.known if each.arguments != call.arguments and each.result != call.result]
        stale = ToolStale().outcome(call)
        new = [each for each in others if each.result != stale]
        return next((each.result for each in new or others), call.result)


class ToolNoop(Lie, frozen=True, tag="tool_noop"):
    """Says that the tool has run, with its recorded answer. It has not: the effect is withheld."""

    runs_tool: ClassVar[bool] = False
    withholds_effect: ClassVar[bool] = True

    def outcome(self, call: EndedCall) -> object:
        same = (each.result for each in call.known if each.arguments == call.arguments)
        return next(same, next((each.result for each in call.known), call.result))


class ChangedResult(Lie, frozen=True):
    """The tool runs, and its result is changed, in the form that it has: an object, or a text, which may be JSON."""

    def outcome(self, call: EndedCall) -> object:
        result = call.result
        if not isinstance(result, str):
            return self._changed_object(result, call)
        try:
            value = orjson.loads(result)
        except orjson.JSONDecodeError:
            return self.changed_text(result, call)
        changed = self.changed(value, call)
        return result if changed is None else _json_like(result, changed)

    def _changed_object(self, result: object, call: EndedCall) -> object:
        """Return an object of the same class with changed fields, or the same object if its class refuses these."""
        if isinstance(result, dict | list):
            changed = self.changed(deepcopy(result), call)
            return result if changed is None else changed
        try:
            changed = self.changed(msgspec.to_builtins(result), call)
            return result if changed is None else convert(changed, type(result))
        except (TypeError, msgspec.ValidationError):
            return result

    @abstractmethod
    def changed(self, value: Any, call: EndedCall) -> Any:
        """Return the changed JSON value, or None if it has nothing to change. It may be changed in place."""

    def changed_text(self, text: str, call: EndedCall) -> str:
        """Return the changed text of a result that is not JSON."""
        return text


def _json_like(text: str, value: Any) -> str:
    """Return a value as JSON in the style of a text: with a space after its separators, or without."""
    if '": ' not in text and ", " not in text:
        return orjson.dumps(value).decode()
    import json  # noqa: PLC0415 - orjson has one style

    return json.dumps(value, ensure_ascii=False, indent=2 if "\n" in text else None)


class FieldMissing(ChangedResult, frozen=True, tag="field_missing"):
    """Runs the tool, and returns its result without the field `name`, or without the first one."""

    names_fields: ClassVar[bool] = True

    name: str = ""

    def changed(self, value: Any, call: EndedCall) -> Any:
        name = self.name or next(iter(_field_names(value)), "")
        found = [each for each in _objects_in(value) if name in each]
        for each in found:
            del each[name]
        return value if found else None


class ValueChanged(ChangedResult, frozen=True, tag="value_changed"):
    """Runs the tool, and returns its result with another value in the field `name`, or in the first that can change.

    A number or a date is moved, a status becomes another one that the recording has in this field, and an id gets other
    digits. In a text, all numbers and dates change that the arguments lack.
    """

    names_fields: ClassVar[bool] = True

    name: str = ""

    def changed(self, value: Any, call: EndedCall) -> Any:
        for name in (self.name,) if self.name else _field_names(value):
            has_changed = False
            for each in _objects_in(value):
                other = _another(each[name], name, call) if name in each else None
                if other is not None:
                    each[name], has_changed = other, True
            if has_changed:
                return value
        is_scalar = not isinstance(value, dict | list)
        return _another(value, "", call) if is_scalar and not self.name else None

    def changed_text(self, text: str, call: EndedCall) -> str:
        asked = result_text(list(call.arguments.values()))
        by = _distance(call.mark)

        def change(found: re.Match[str]) -> str:
            return found[0] if found[0] in asked else _moved_text(found[0], by)

        return _TELLING_WORD.sub(change, text)


class DuplicateItem(ChangedResult, frozen=True, tag="duplicate_item"):
    """Runs the tool, and returns its list, or the first list in its result, with the last item twice."""

    def changed(self, value: Any, call: EndedCall) -> Any:
        items = list_in(value)
        if items is None:
            return None
        items.append(deepcopy(items[-1]))
        return value


class TruncatedList(ChangedResult, frozen=True, tag="truncated_list"):
    """Runs the tool, and returns the first half of its list, like a page without the following one."""

    def changed(self, value: Any, call: EndedCall) -> Any:
        items = list_in(value)
        if items is None:
            return None
        del items[len(items) // 2 :]
        return value


def values_of(result: object) -> Iterator[tuple[str, str]]:
    """Yield the fields in a result that is an object or JSON, with the texts of their values, the outer ones first."""
    for each in _objects_in(parsed_result(result)):
        for name, value in each.items():
            yield name, result_text(value)


def _field_names(value: Any) -> list[str]:
    return list(dict.fromkeys(name for each in _objects_in(value) for name in each))


def _objects_in(value: object) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for each in value.values():
            yield from _objects_in(each)
    elif isinstance(value, list):
        for each in value:
            yield from _objects_in(each)


def list_in(value: object) -> list[Any] | None:
    """Return the first list with items in a JSON value, or None."""
    if isinstance(value, list) and value:
        return value
    parts = value.values() if isinstance(value, dict) else ()
    return next((found for each in parts if (found := list_in(each)) is not None), None)


_DATE = r"\d{4}-\d\d-\d\d"
_TELLING_WORD = re.compile(rf"{_DATE}|(?<![\w.-])\d+(?:\.\d+)?(?![\w-]|\.\d)")
_IS_DATE = re.compile(_DATE)
_DIGITS = re.compile(r"\d+")


def _distance(mark: str) -> int:
    """Return the distance by which values move. A mark makes it distinctive, so evidence can follow the value."""
    return 111 + crc32(mark.encode()) % 800


def _another(value: Any, name: str, call: EndedCall) -> Any:
    """Return another value of the same kind, or None if there is none."""
    by = _distance(call.mark)
    match value:
        case bool():
            return not value
        case int():
            return value + by
        case float():
            return round(value + by, 2)
        case str() if any(char.isdigit() for char in value):
            return _moved_text(value, by)
        case str():
            known = (
                found[name] for each in call.known for found in _objects_in(parsed_result(each.result)) if name in found
            )
            return next((each for each in known if isinstance(each, str) and each != value), None)
        case _:
            return None


def parsed_result(result: object) -> object:
    """Return the JSON value of a result that is a text, or the result itself."""
    if not isinstance(result, str):
        return result
    try:
        return orjson.loads(result)
    except orjson.JSONDecodeError:
        return result


def _moved_text(text: str, by: int) -> str:
    """Return a text whose date, or else whose last number, is another one of the same width."""
    if found := _IS_DATE.search(text):
        try:
            moved = date.fromisoformat(found[0]) + timedelta(days=by % 27 + 1)
        except (ValueError, OverflowError):
            return text
        return text[: found.start()] + moved.isoformat() + text[found.end() :]
    whole = re.search(r"\d+(?=\.\d+\D*$)", text)  # 42.50: the cents stay
    last = whole or list(_DIGITS.finditer(text))[-1]
    return text[: last.start()] + str(int(last[0]) + by).zfill(len(last[0])) + text[last.end() :]
