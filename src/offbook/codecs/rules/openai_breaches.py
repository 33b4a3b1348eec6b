"""Breaches that both APIs of OpenAI refuse alike: values, names, numbers, schemas, and the fields of their errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from offbook.codecs.rules.json_schema import SchemaBreach
from offbook.codecs.rules.rule import Breach, a_dict, text
from offbook.messages import JsonObject

MAX_CALL_ID = 64
_NAME = re.compile(r"[a-zA-Z0-9_.-]+")
"""A dot is accepted here, because some models accept it."""

_NAME_PATTERN, _MAX_NAME = "^[a-zA-Z0-9_-]+$", 64
_DECIMALS = ("temperature", "top_p", "frequency_penalty", "presence_penalty")


def refused(param: str, reason: str, message: str, code: str | None = None, *, place: str = "") -> Breach:
    """Return a breach with the fields of OpenAI's errors. Its place is that of the parameter by default."""
    return Breach(place or _place(param), reason, message, {"param": param, "code": code})


def _place(param: str) -> str:
    return param.replace(".[", ".").replace("[", ".").replace("]", "")


def missing(param: str) -> Breach:
    """Return the breach of a request that lacks a parameter."""
    return refused(param, "is missing", f"Missing required parameter: '{param}'.", "missing_required_parameter")


def empty_array(param: str) -> Breach:
    """Return the breach of an array that must not be empty."""
    words = f"Invalid '{param}': empty array. Expected an array with minimum length 1, but got an empty array instead."
    return refused(param, "is empty", words, "empty_array")


def too_long(param: str, *, most: int, length: int, kind: str = "string") -> Breach:
    """Return the breach of a string or array that is too long."""
    article = "an array" if kind == "array" else "a string"
    words = (
        f"Invalid '{param}': {kind} too long. Expected {article} with maximum length {most}, "
        f"but got {article} with length {length} instead."
    )
    return refused(param, f"is longer than {most}", words, f"{kind}_above_max_length")


def range_breaches(body: JsonObject, **ranges: tuple[int, int | None]) -> Iterator[Breach]:
    """Yield the numbers of a request that are out of their ranges."""
    for param, (least, most) in ranges.items():
        value = body.get(param)
        if not isinstance(value, int | float) or isinstance(value, bool):
            continue
        kind = "decimal" if param in _DECIMALS else "integer"
        if value < least:
            side, bound, code = "below minimum", f">= {least}", f"{kind}_below_min_value"
        elif most is not None and value > most:
            side, bound, code = "above maximum", f"<= {most}", f"{kind}_above_max_value"
        else:
            continue
        words = f"Invalid '{param}': {kind} {side} value. Expected a value {bound}, but got {value} instead."
        yield refused(param, f"is {value}, not {bound}", words, code)


def arguments_breaches(param: str, given: object) -> Iterator[Breach]:
    """Yield the breach of a call's arguments that are an object instead of its JSON."""
    if isinstance(given, dict):
        words = f"Invalid type for '{param}': expected a string, but got an object instead."
        yield refused(param, "is an object, not its JSON", words, "invalid_type")


def name_breaches(param: str, function: JsonObject) -> Iterator[Breach]:
    """Yield the breach of a function without a name, or with one that is too long or has invalid characters."""
    param, name = f"{param}.name", text(function.get("name"))
    if "name" not in function:
        yield missing(param)
    elif len(name) > _MAX_NAME:
        yield too_long(param, most=_MAX_NAME, length=len(name))
    elif not _NAME.fullmatch(name):
        expected = f"Expected a string that matches the pattern '{_NAME_PATTERN}'."
        words = f"Invalid '{param}': string does not match pattern. {expected}"
        yield refused(param, f"is {name!r}", words, "invalid_value")


def parameters_breaches(
    param: str, function: JsonObject, find: Callable[[JsonObject], SchemaBreach | None]
) -> Iterator[Breach]:
    """Yield the breach that `find` finds in the schema of a function's parameters."""
    if found := find(a_dict(function.get("parameters"))):
        param, words = f"{param}.parameters", f"Invalid schema for function '{function.get('name')}': {found.words}"
        place = f"{_place(param)}{found.place}"
        yield refused(param, found.reason, words, "invalid_function_parameters", place=place)
