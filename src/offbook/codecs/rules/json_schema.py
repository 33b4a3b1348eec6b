"""The subset of JSON Schema that OpenAI accepts for strict schemas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from offbook.codecs.rules.rule import a_dict, a_list
from offbook.messages import JsonObject

_REFUSED: Final = ("allOf", "not", "dependentRequired", "dependentSchemas", "if", "then", "else", "patternProperties")


class SchemaBreach(Struct, frozen=True):
    """A violation of the subset: its place below the schema, like `.properties.body`, and the reason in our words and
    the vendor's.
    """

    place: str
    reason: str
    words: str


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
    for keyword in ("properties", "$defs", "definitions"):
        for name, each in a_dict(schema.get(keyword)).items():
            yield from _parts(a_dict(each), (*context, keyword, name))
    if isinstance(schema.get("items"), dict):
        yield from _parts(schema["items"], (*context, "items"))
    for position, each in enumerate(a_list(schema.get("anyOf"))):
        yield from _parts(a_dict(each), (*context, "anyOf", str(position)))


def _breaches(schema: JsonObject, context: tuple[str, ...]) -> Iterator[SchemaBreach]:
    place = "".join(f".{each}" for each in context)
    within = f"In context=({', '.join(map(repr, context))}{',' if len(context) == 1 else ''})"
    for keyword in _REFUSED:
        if keyword in schema:
            yield SchemaBreach(f"{place}.{keyword}", "is not permitted", f"{within}, '{keyword}' is not permitted.")
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
