"""Parses a planned fault from one line of text, as it is written on a command line."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, get_args, get_origin

import msgspec
from msgspec import Struct

from offbook.errors import InputError
from offbook.faults.catalog import (
    PLANNED_FAULT_TYPES,
    AnyFault,
    AnyToolFault,
    explain_fault_error,
    fault_type_hint,
)
from offbook.faults.fault import fields_of, join_words, parse_value, split_words
from offbook.faults.site import At, PlannedFault
from offbook.schema_errors import explain_msgspec_error, shape_hint

_LINE = re.compile(r'((?:"(?:[^"\\]|\\.)*"|[^":]|:(?!\s|$))*):(?:\s+|$)(.*)', re.DOTALL)
_HALF_PAIR = re.compile("[\ud800-\udfff]")
"""What Python makes of bytes of the command line that are not UTF-8."""
_EXAMPLES = (
    "a fault is like 'call=3: http_error 500', 'step=answer attempt=1: timeout 5000', 'everywhere: timeout' "
    "or 'tool=refund: tool_lost'"
)


def parse_fault(text: str) -> PlannedFault:
    """Parse a planned fault, like `call=3: http_error 500`.

    Before the colon is the site: `everywhere`, or some of `workflow=`, `step=`, `call=`, `since=`, `attempt=` and
    `chunk=`; for a tool, `tool=` and optionally `call=` or `since=`. After it are the type of the fault, the value of
    its first field, and other fields as `name=value`; `headers.Retry-After=30` sets an entry of a mapping. Text with
    spaces is in double quotes. `str()` of a planned fault is such a line.

    Raises:
        InputError: the text is not such a line.
    """
    if _HALF_PAIR.search(text) is not None:
        raise InputError("not UTF-8", source=repr(text), hint=_EXAMPLES)
    line = _LINE.fullmatch(text)
    if line is None:
        raise InputError("expected where, a colon and a fault", source=repr(text), hint=_EXAMPLES)
    try:
        return _parse_at(line[1]).fail(_parse_declared_fault(line[2]))
    except InputError as error:
        place = "step" if error.place == "step_id" else error.place
        raise InputError(error.reason, source=repr(text), place=place, hint=error.hint) from None


def _parse_at(text: str) -> At:
    words = list(split_words(text))
    if words == [("", "everywhere")]:
        return At()
    bare = next((word for name, word in words if not name), None)
    if not words or bare is not None:
        raise InputError(f"expected a site, got {bare or ''!r}", hint=_EXAMPLES)
    fields = _parse_fields([("step_id" if name == "step" else name, word) for name, word in words], At)
    try:
        return msgspec.convert(fields, At)
    except msgspec.ValidationError as error:
        reason, path = explain_msgspec_error(error)
        hint = shape_hint(reason, path, At).replace("step_id", "step")
        raise InputError(reason, place=path.lstrip("."), hint=hint) from None


def _parse_declared_fault(text: str) -> AnyFault | AnyToolFault:
    words = list(split_words(text))
    kind, types = join_words(words[:1]), PLANNED_FAULT_TYPES
    if kind not in types:
        reason = f"unknown fault type {kind!r}" if kind else "expected a fault after the colon"
        raise InputError(reason, hint=fault_type_hint(kind, types))
    fields = {"type": kind} | _parse_fields(_name_first_word(words[1:], types[kind]), types[kind])
    try:
        return msgspec.convert(fields, types[kind])
    except msgspec.ValidationError as error:
        reason, path = explain_msgspec_error(error)
        reason, hint = explain_fault_error(reason, path, fields, types)
        raise InputError(reason, place=path.lstrip("."), hint=hint) from None


def _name_first_word(words: list[tuple[str, str]], shape: type[Struct]) -> list[tuple[str, str]]:
    """Give the first word the name of the first field, if it has none."""
    names = shape.__struct_encode_fields__
    if words and names and not words[0][0]:
        words = [(names[0], words[0][1]), *words[1:]]
    for name, word in words:
        if not name:
            hint = f"put text that has spaces in double quotes; {shape_hint('', '', shape)}"
            raise InputError(f"{word!r} is one word too many", hint=hint)
    return words


def _parse_fields(words: Iterable[tuple[str, str]], shape: type[Struct]) -> dict[str, Any]:
    """Parse the values of words, by the names of their fields."""
    kinds = {info.encode_name: info.type for info in fields_of(shape)}
    fields: dict[str, Any] = {}
    for name, word in words:
        field, _, entry = name.partition(".")
        target, key, kind = fields, name, kinds.get(name)
        if entry and get_origin(kinds.get(field)) is dict:
            target, key, kind = fields.setdefault(field, {}), entry, get_args(kinds[field])[1]
        if not isinstance(target, dict) or key in target:
            raise InputError("given twice", place=name, hint="give it once")
        target[key] = parse_value(word, kind)
    return fields
