"""A plausible value for a JSON schema, written in Python."""

from __future__ import annotations

import json
from typing import Any

from offbook.messages import JsonObject

MAX_DEPTH = 4
TEXTS = {
    "date": "2026-03-30",
    "date-time": "2026-03-30T12:00:00Z",
    "time": "12:00:00",
    "email": "ada@example.com",
    "uri": "https://example.com",
    "uuid": "00000000-0000-4000-8000-000000000001",
}
VALUES = {"integer": "1", "number": "1.0", "boolean": "True"}
JSON_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number"}


class Example:
    """Writes values that a schema describes. Fields that are named and typed like one of `args` repeat it."""

    def __init__(self, root: JsonObject, args: JsonObject) -> None:
        self._root, self._args = root, args

    def fields(self) -> dict[str, str]:
        """The fields of the value, each in Python; none if it is no object."""
        return self._fields(self._settled(self._root), depth=0)

    def source(self) -> str:
        """The value in Python, on one line."""
        return self._source(self._root, depth=0)

    def _fields(self, schema: JsonObject, *, depth: int) -> dict[str, str]:
        properties: JsonObject = schema.get("properties", {})
        return {name: self._field(name, part, depth=depth + 1) for name, part in properties.items()}

    def _field(self, name: str, schema: JsonObject, *, depth: int) -> str:
        kind = JSON_TYPES.get(type(self._args.get(name)))
        is_alike = kind is not None and schema.get("type") == kind and not schema.keys() & {"enum", "const"}
        return f"args[{text(name)}]" if is_alike else self._source(schema, depth=depth)

    def _source(self, schema: JsonObject, *, depth: int) -> str:
        schema = self._settled(schema)
        for given in ("const", "enum", "examples"):
            if given in schema:
                return literal(schema[given] if given == "const" else schema[given][0])
        is_deep = depth > MAX_DEPTH
        match schema.get("type", "object" if "properties" in schema else "null"):
            case "object":
                return "{}" if is_deep else joined(self._fields(schema, depth=depth))
            case "array":
                has_items = schema.get("items") and not is_deep
                return f"[{self._source(schema['items'], depth=depth + 1)}]" if has_items else "[]"
            case "string":
                return text(TEXTS.get(schema.get("format", ""), "text"))
            case kind:
                return VALUES.get(kind, "None")

    def _settled(self, schema: JsonObject) -> JsonObject:
        """The schema that is meant: behind its references, and of several the first that is not null."""
        for _ in range(MAX_DEPTH):
            choices = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf")
            if choices:
                schema = next((choice for choice in choices if choice.get("type") != "null"), choices[0])
            elif "$ref" in schema:
                schema = self._behind(schema["$ref"])
        if isinstance(schema.get("type"), list):
            return {**schema, "type": next((kind for kind in schema["type"] if kind != "null"), "null")}
        return schema

    def _behind(self, reference: str) -> JsonObject:
        found: Any = self._root
        for part in reference.removeprefix("#").split("/")[1:]:
            found = found.get(part, {})
        return found if isinstance(found, dict) else {}


def joined(fields: dict[str, str]) -> str:
    """A dict in Python, on one line."""
    return f"{{{', '.join(f'{text(name)}: {source}' for name, source in fields.items())}}}"


def literal(value: object) -> str:
    """A JSON value in Python."""
    if isinstance(value, str):
        return text(value)
    if isinstance(value, dict):
        return joined({name: literal(part) for name, part in value.items()})
    return f"[{', '.join(literal(part) for part in value)}]" if isinstance(value, list) else repr(value)


def text(value: str) -> str:
    """Text in Python, in double quotes."""
    return json.dumps(value, ensure_ascii=False)
