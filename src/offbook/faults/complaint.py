"""Complaints about JSON that people write: what is wrong, where, and what would be right."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, get_args

from msgspec import Struct
from msgspec.structs import fields as struct_fields

from offbook.faults.catalog import FAULT_TYPES, TOOL_FAULT_TYPES, AnyFault, AnyToolFault
from offbook.wording import did_you_mean, suggestion

_OTHER_FORM = "expected a text of another form"
_REWORDED = (
    (r"^Object missing required field `(.*)`", r"the field \1 is missing"),
    (r"^Invalid enum value ", "unknown value "),
    (r"^Expected `str` matching regex .*", _OTHER_FORM),
    (r"^Expected ", "expected "),
    (r" of length >= (\d+)$", r" of length \1 or more"),
    (r" >= (-?\d+)(\.0)?$", r" of at least \1"),
    (r" <= (-?\d+)(\.0)?$", r" of at most \1"),
)
_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "bool": "true or false",
    "object": "an object",
    "array": "a list",
}


def shape_hint(reason: str, path: str, shape: type[Struct]) -> str:
    """A hint for what msgspec complains of at `path` in an object of this shape: what it may have there."""
    kinds = {info.encode_name: info.type for info in struct_fields(shape)}
    if not kinds:
        return "it has no fields beside type"
    if "unknown value" in reason:
        return f"one of: {', '.join(get_args(kinds[path.lstrip('.')]))}"
    if _OTHER_FORM in reason:
        return str(get_args(kinds[path.lstrip(".")])[1].description)
    unknown = re.search(r"unknown field `(.*)`", reason)
    return suggestion(unknown[1] if unknown else "", kinds, kind="fields")


def fault_complaint(
    reason: str, path: str, declared: Any, types: Mapping[str, type[AnyFault | AnyToolFault]] = FAULT_TYPES
) -> tuple[str, str]:
    """The reason and the hint for what msgspec complains of at `path` in a declared fault of one of these types."""
    name = str(declared.get("type", "")) if isinstance(declared, dict) else ""
    if name in types:
        return reason, shape_hint(reason, path, types[name])
    return reason.replace("Invalid value", "unknown fault type"), type_hint(name, types)


def type_hint(name: str, types: Mapping[str, type[AnyFault | AnyToolFault]]) -> str:
    """A hint for a type of fault that is none of `types`: which they are, and whether it is one of tools."""
    if name in TOOL_FAULT_TYPES:
        return f"it strikes a tool, by a line of a plan: 'tool=refund: {name}'"
    of_tools = sorted(types.keys() & TOOL_FAULT_TYPES)
    listed = suggestion("", types.keys() - TOOL_FAULT_TYPES, kind="fault types")
    hint = " ".join(filter(None, [did_you_mean(name, types), listed]))
    return f"{hint}; of tools: {', '.join(of_tools)}" if of_tools else hint


def reason_and_path(error: Exception) -> tuple[str, str]:
    """What msgspec says is wrong, and the path at which it is, like `.faults[1].at`."""
    reason, _, path = str(error).partition(" - at `$")
    return plain_words(reason), path.rstrip("`")


def plain_words(reason: str) -> str:
    """What msgspec says is wrong, in words that do not name types: what was expected, and what is there."""
    for pattern, words in _REWORDED:
        reason = re.sub(pattern, words, reason)
    return re.sub(r"`([\w| ]+)`", lambda found: _kinds(found[1]) if reason.startswith("expected") else found[0], reason)


def _kinds(names: str) -> str:
    """The kinds of values in a text like `int | null`; null is told only where it stands alone."""
    kinds = [_KINDS.get(name, name) for name in names.split(" | ") if name != "null"]
    return " or ".join(dict.fromkeys(kinds)) or "null"


def value_at(value: Any, path: str) -> Any:
    """What stands at a path like `.faults[1].at`."""
    for name, index in re.findall(r"\.(\w+)|\[(\d+)\]", path):
        value = value[name] if name else value[int(index)]
    return value


def broken_json(data: bytes, error: Exception) -> tuple[str, str]:
    """What is wrong with `data` that cannot be read as JSON at all, and at which line and column."""
    reason = str(error)
    if isinstance(error, UnicodeDecodeError):
        return f"not UTF-8: {error.reason}", _line_and_column(data[: error.start])
    if isinstance(error, RecursionError):
        return "nested too deep", ""
    if not data.strip():
        return "the file is empty", ""
    if "truncated" in reason:
        return "the JSON ends in the middle", _line_and_column(data)
    found = re.search(r" \(byte (\d+)\)", reason)
    if found is None:
        return plain_words(reason.partition(" - at ")[0]), ""
    return reason.replace(found[0], ""), _line_and_column(data[: int(found[1])])


def _line_and_column(before: bytes) -> str:
    newline = b"\n"
    return f"line {before.count(newline) + 1}, column {len(before) - before.rfind(newline)}"
