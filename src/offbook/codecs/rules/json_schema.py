"""The subset of JSON Schema that OpenAI accepts: for all functions, and for strict schemas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from offbook.codecs.rules.rule import a_dict, a_list
from offbook.messages import JsonObject

_REFUSED_AT_TOP: Final = ("oneOf", "anyOf", "allOf", "enum", "not")
_NESTING: Final = frozenset(("properties", "$defs", "definitions", "items", "anyOf"))
_REFUSED: Final = (
    *("oneOf", "allOf", "not", "dependentRequired", "dependentSchemas", "if", "then", "else", "propertyNames"),
)


class SchemaBreach(Struct, frozen=True):
    """A violation of the subset: its place below the schema, like `.properties.body`, and the reason in our words and
    the vendor's.
    """

    place: str
    reason: str
    words: str


def function_schema_breach(schema: JsonObject) -> SchemaBreach | None:
    """Return the first part that no function's schema may have, strict or not, or None."""
    kind = schema.get("type")
    if isinstance(kind, str) and kind != "object":
        words = f"schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{kind}\"'."
        return SchemaBreach(".type", f"is {kind!r}", words)
    for refused in _REFUSED_AT_TOP:
        if schema.get(refused) is None:
            continue
        listed = "/".join(map(repr, _REFUSED_AT_TOP))
        words = f"schema must have type 'object' and not have {listed} at the top level."
        return SchemaBreach(f".{refused}", "is not permitted at the top", words)
    for context, part in _parts(schema, ()):
        if part.get("type") == "array" and "items" not in part and "prefixItems" not in part:
            return SchemaBreach(
                _place(context), "is an array without items", f"{_within(context)}, array schema missing items."
            )
    return None


def strict_schema_breach(schema: JsonObject) -> SchemaBreach | None:
    """Return the first violation in a strict schema, or None."""
    given = schema.get("type")
    if given != "object" and "$ref" not in schema:
        shown = "None" if given is None else f'"{given}"'
        words = f"schema must be a JSON Schema of 'type: \"object\"', got 'type: {shown}'."
        return SchemaBreach(".type", f"is {given!r}", words)
    return next((breach for context, part in _parts(schema, ()) for breach in _breaches(part, context)), None)


def _parts(schema: JsonObject, context: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], JsonObject]]:
    """Yield a schema and all schemas in it, with their places."""
    yield context, schema
    if _NESTING.isdisjoint(schema):  # as most are; this is done for every tool of a request
        return
    for keyword in ("properties", "$defs", "definitions"):
        for name, each in a_dict(schema.get(keyword)).items():
            yield from _parts(a_dict(each), (*context, keyword, name))
    if isinstance(schema.get("items"), dict):
        yield from _parts(schema["items"], (*context, "items"))
    for position, each in enumerate(a_list(schema.get("anyOf"))):
        yield from _parts(a_dict(each), (*context, "anyOf", str(position)))


def _breaches(schema: JsonObject, context: tuple[str, ...]) -> Iterator[SchemaBreach]:
    place, within = _place(context), _within(context)
    for keyword in _REFUSED:
        if keyword in schema:
            yield SchemaBreach(f"{place}.{keyword}", "is not permitted", f"{within}, '{keyword}' is not permitted.")
    if context and "$ref" in schema and len(schema) > 1:
        besides = ", ".join(repr(name) for name in schema if name != "$ref")
        yield SchemaBreach(place, f"has {besides} next to $ref", f"{within}, $ref cannot have keywords {{{besides}}}.")
    if schema.get("type") != "object" and "properties" not in schema:
        return
    if schema.get("additionalProperties") is not False:
        words = f"{within}, 'additionalProperties' is required to be supplied and to be false."
        yield SchemaBreach(place, "additionalProperties is not false", words)
    required = a_list(schema.get("required"))
    if lacking := [name for name in a_dict(schema.get("properties")) if name not in required]:
        words = (
            f"{within}, 'required' is required to be supplied and to be an array including every key in properties. "
            f"Missing '{lacking[0]}'."
        )
        yield SchemaBreach(place, f"{lacking[0]!r} is not required", words)


def _place(context: tuple[str, ...]) -> str:
    return "".join(f".{each}" for each in context)


def _within(context: tuple[str, ...]) -> str:
    return f"In context=({', '.join(map(repr, context))}{',' if len(context) == 1 else ''})"
