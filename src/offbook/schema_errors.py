"""Explains the problem of a user's value: an argument's type, or the shape of JSON."""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8
from pathlib import Path
from typing import Any, TypeVar, get_args

import msgspec
from msgspec import DecodeError, Struct
from msgspec.structs import fields as struct_fields

from offbook.decoding import decode
from offbook.errors import InputError
from offbook.files import read_file
from offbook.text import did_you_mean, did_you_mean_file, shorten, suggestion

T = TypeVar("T")


def check_type(value: object, kind: type, *, source: str, hint: str = "") -> None:
    """Check the type of the argument that `source` names.

    Raises:
        InputError: it has another type; `hint` says what to pass.
    """
    if not isinstance(value, kind):
        raise InputError(f"expected a {kind.__name__}, got {describe_type(value)}", source=source, hint=hint)


def check_int(value: object, *, source: str) -> None:
    """Raise InputError if `value` is not an int; a bool is not an int here."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise InputError(f"expected an int, got {value!r}", source=source)


def check_number(value: object, *, source: str) -> None:
    """Raise InputError if `value` is not an int or a float; a bool is neither here."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise InputError(f"expected a number, got {value!r}", source=source)


def describe_type(value: object) -> str:
    """Return the type of a value, or the name of a class, for an error message."""
    if value is None:
        return "None"
    if isinstance(value, type):
        return f"the class {value.__name__} itself"
    return "a str" if isinstance(value, str) else type(value).__name__


OTHER_FORM = "expected a string in another format"
_REWORDINGS = (
    (r"^Object missing required field `(.*)`", r"the field \1 is missing"),
    (r"^Object contains unknown field `(.*)`", r"unknown field '\1'"),
    (r"^Invalid enum value ", "unknown value "),
    (r"^Expected `str` matching regex .*", OTHER_FORM),
    (r"^Expected ", "expected "),
    (r"^Number out of range", "a number that is too large"),
    (r" of length >= (\d+)$", r" of length \1 or more"),
    (r" >= (-?\d+)(\.0)?$", r" of at least \1"),
    (r" <= (-?\d+)(\.0)?$", r" of at most \1"),
)
_TYPE_NAMES = {
    "int": "an integer",
    "float": "a number",
    "str": "a string",
    "bool": "true or false",
    "object": "an object",
    "array": "a list",
}


def shape_hint(reason: str, path: str, shape: type[Struct]) -> str:
    """Return a hint for msgspec's error at `path` in an object of this shape: the allowed values."""
    kinds = {info.encode_name: info.type for info in struct_fields(shape)}
    if not kinds:
        return "it has no fields besides type"
    if unknown := re.search(r"unknown value '(.*)'", reason):
        values = get_args(kinds[path.lstrip(".")])
        return " ".join(filter(None, [did_you_mean(unknown[1], values), f"one of: {', '.join(values)}"]))
    if OTHER_FORM in reason:
        return str(get_args(kinds[path.lstrip(".")])[1].description)
    unknown = re.search(r"unknown field '(.*)'", reason)
    return suggestion(unknown[1] if unknown else "", kinds, kind="fields")


def with_value(reason: str, value: Any) -> str:
    """Return the reason for a wrong value with the value itself, if it is text or a number."""
    if not reason.startswith("expected") or not isinstance(value, str | int | float):
        return reason
    return (
        f"{reason.partition(', got ')[0]}, got {shorten(repr(value) if isinstance(value, str) else json.dumps(value))}"
    )


def explain_msgspec_error(error: Exception) -> tuple[str, str]:
    """Return msgspec's error in plain words, and its path, like `.faults[1].at`."""
    if isinstance(error, RecursionError):
        return "nested too deep", ""
    reason, _, path = str(error).partition(" - at `$")
    return reword(reason), path.rstrip("`")


def reword(reason: str) -> str:
    """Return msgspec's message in plain words: the expected and the found type."""
    for pattern, words in _REWORDINGS:
        reason = re.sub(pattern, words, reason)
    return re.sub(
        r"`([\w| ]+)`", lambda found: _type_names(found[1]) if reason.startswith("expected") else found[0], reason
    )


def _type_names(names: str) -> str:
    """Return the types in a message like `int | null` in words; null only if it is alone."""
    kinds = [_TYPE_NAMES.get(name, name) for name in names.split(" | ") if name != "null"]
    return " or ".join(dict.fromkeys(kinds)) or "null"


def value_at(value: Any, path: str) -> Any:
    """Return the value at a path like `.faults[1].at`."""
    for name, index in re.findall(r"\.(\w+)|\[(\d+)\]", path):
        value = value[name] if name else value[int(index)]
    return value


def json_value_at(data: bytes, path: str) -> Any:
    """Return the value at a path of a JSON document, or None if the document cannot be decoded."""
    try:
        return value_at(msgspec.json.decode(data), path)
    except (msgspec.ValidationError, RecursionError):
        return None


class RepeatedKeyError(DecodeError):
    """An object has a key twice. JSON allows that, but one of the two values would be lost."""


def check_keys(data: bytes) -> None:
    """Raise RepeatedKeyError if an object in the JSON has a key twice. Other text passes."""
    try:
        json.loads(data, object_pairs_hook=_check_pairs, parse_int=len, parse_float=len)
    except RepeatedKeyError:
        raise
    except (ValueError, RecursionError):
        return


def _check_pairs(pairs: list[tuple[str, Any]]) -> None:
    names: set[str] = set()
    for name, _ in pairs:
        if name in names:
            raise RepeatedKeyError(f"the key {shorten(name)!r} appears twice")
        names.add(name)


def decode_json(data: bytes, kind: type[T], *, source: str, hint: str = "", allows_repeats: bool = False) -> T:
    """Decode a user's JSON to a value of this type.

    Raises:
        InputError: it is not JSON, has another shape, or has a key twice in an object unless it `allows_repeats`; names
            `source`, the place in it and the reason.
    """
    try:
        data.decode()
        if not allows_repeats:
            check_keys(data)
        return decode(data, kind)
    except msgspec.ValidationError as error:
        reason, place = explain_msgspec_error(error)
        raise InputError(reason, source=source, place=place.removeprefix("."), hint=hint) from None
    except (DecodeError, UnicodeDecodeError, RecursionError) as error:
        reason, place = explain_json_error(data, error)
        raise InputError(reason, source=source, place=place, hint=hint) from None


def explain_json_error(data: bytes, error: Exception) -> tuple[str, str]:
    """Return the problem of invalid JSON `data`, with its line and column."""
    if isinstance(error, UnicodeDecodeError):
        return f"not UTF-8: {error.reason}", _line_and_column(data[: error.start])
    if isinstance(error, RecursionError | RepeatedKeyError):
        return "nested too deep" if isinstance(error, RecursionError) else str(error), ""
    return _explain_syntax(data, str(error))


def _explain_syntax(data: bytes, reason: str) -> tuple[str, str]:
    if not data.removeprefix(BOM_UTF8).strip():
        return "the file is empty", ""
    if data.startswith(BOM_UTF8):
        return "the file starts with a byte order mark; save it as UTF-8 without one", _line_and_column(b"")
    if "truncated" in reason:
        return "the JSON ends in the middle", _line_and_column(data)
    found = re.search(r" \(byte (\d+)\)", reason)
    if found is None:
        return reword(reason.partition(" - at ")[0]), ""
    return reason.replace(found[0], ""), _line_and_column(data[: int(found[1])])


def _line_and_column(before: bytes) -> str:
    newline = b"\n"
    return f"line {before.count(newline) + 1}, column {len(before) - before.rfind(newline)}"


def read_toml(file: Path) -> dict[str, Any]:
    """Read a TOML file.

    Raises:
        InputError: it cannot be read, or it is not TOML.
    """
    import tomllib  # noqa: PLC0415 - few files are TOML

    try:
        return tomllib.loads(read_file(file).decode("utf-8-sig").replace("\r\n", "\n"))
    except OSError as error:
        raise InputError(error.strerror or str(error), source=str(file), hint=did_you_mean_file(file)) from None
    except UnicodeDecodeError:
        raise InputError("the file is not UTF-8", source=str(file), hint="save it as UTF-8") from None
    except RecursionError:
        raise InputError("invalid TOML: nested too deep", source=str(file)) from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"invalid TOML: {error}", source=str(file)) from None
    except ValueError:  # what Python says of an integer with thousands of digits
        raise InputError("invalid TOML: a number that is too large", source=str(file)) from None
