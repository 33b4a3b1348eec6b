"""The error for a call of a tool without a mock, which suggests the missing mock as Python source."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable
from itertools import islice
from typing import Any

from offbook.errors import UnmockedToolError
from offbook.messages import JsonObject

MAX_DEPTH = 4
EXAMPLE_STRINGS = {
    "date": "2026-03-30",
    "date-time": "2026-03-30T12:00:00Z",
    "time": "12:00:00",
    "email": "ada@example.com",
    "uri": "https://example.com",
    "uuid": "00000000-0000-4000-8000-000000000001",
}
EXAMPLE_VALUES = {"integer": "1", "number": "1.0", "boolean": "True"}
JSON_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number"}


class ExampleValue:
    """Writes example values for a schema. A field with the name and type of one of `args` repeats that argument."""

    def __init__(self, root: JsonObject, args: JsonObject) -> None:
        self._root, self._args = root, args

    def fields(self) -> dict[str, str]:
        """Return the fields of the value as Python source; empty if it is not an object."""
        return self._fields(self._resolved(self._root), depth=0)

    def source(self) -> str:
        """Return the value as Python source, on one line."""
        return self._source(self._root, depth=0)

    def _fields(self, schema: JsonObject, *, depth: int) -> dict[str, str]:
        properties: JsonObject = schema.get("properties", {})
        return {name: self._field(name, part, depth=depth + 1) for name, part in properties.items()}

    def _field(self, name: str, schema: JsonObject, *, depth: int) -> str:
        kind = JSON_TYPES.get(type(self._args.get(name)))
        is_alike = kind is not None and schema.get("type") == kind and not schema.keys() & {"enum", "const"}
        return f"args[{string_source(name)}]" if is_alike else self._source(schema, depth=depth)

    def _source(self, schema: JsonObject, *, depth: int) -> str:
        schema = self._resolved(schema)
        for given in ("const", "enum", "examples"):
            if given in schema:
                return literal_source(schema[given] if given == "const" else schema[given][0])
        is_deep = depth > MAX_DEPTH
        match schema.get("type", "object" if "properties" in schema else "null"):
            case "object":
                return "{}" if is_deep else dict_source(self._fields(schema, depth=depth))
            case "array":
                has_items = schema.get("items") and not is_deep
                return f"[{self._source(schema['items'], depth=depth + 1)}]" if has_items else "[]"
            case "string":
                return string_source(EXAMPLE_STRINGS.get(schema.get("format", ""), "text"))
            case kind:
                return EXAMPLE_VALUES.get(kind, "None")

    def _resolved(self, schema: JsonObject) -> JsonObject:
        """Resolve references, and choose the first alternative that is not null."""
        for _ in range(MAX_DEPTH):
            choices = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf")
            if choices:
                schema = next((choice for choice in choices if choice.get("type") != "null"), choices[0])
            elif "$ref" in schema:
                schema = self._referenced(schema["$ref"])
        if isinstance(schema.get("type"), list):
            return {**schema, "type": next((kind for kind in schema["type"] if kind != "null"), "null")}
        return schema

    def _referenced(self, reference: str) -> JsonObject:
        found: Any = self._root
        for part in reference.removeprefix("#").split("/")[1:]:
            found = found.get(part, {})
        return found if isinstance(found, dict) else {}


def dict_source(fields: dict[str, str]) -> str:
    """Return a dict as Python source, on one line."""
    return f"{{{', '.join(f'{string_source(name)}: {source}' for name, source in fields.items())}}}"


def literal_source(value: object) -> str:
    """Return a JSON value as Python source."""
    if isinstance(value, str):
        return string_source(value)
    if isinstance(value, dict):
        return dict_source({name: literal_source(part) for name, part in value.items()})
    return f"[{', '.join(literal_source(part) for part in value)}]" if isinstance(value, list) else repr(value)


def string_source(value: str) -> str:
    """Return a str as Python source, in double quotes."""
    return json.dumps(value, ensure_ascii=False)


MAX_REPEATED_ARGS = 4


def unmocked_error(
    tool: str, args: JsonObject, *, returns: JsonObject, mocked: Iterable[str], declared_by: str = "Mocks"
) -> UnmockedToolError:
    """Build the error for a call of a tool that has no mock.

    `returns` is the JSON schema of the tool's results, or empty if it is not known. `declared_by` is the function that
    declares the mocks.
    """
    close = difflib.get_close_matches(tool, list(mocked), n=1)
    hint = f"Did you mean the mock {close[0]!r}?" if close else ""
    suggestion = _mock_source(tool, args, returns)
    return UnmockedToolError(tool=tool, arguments=args, suggestion=suggestion, hint=hint, declared_by=declared_by)


def _mock_source(tool: str, args: JsonObject, returns: JsonObject) -> str:
    fields = ExampleValue(returns, args).fields() if returns else _default_fields(args)
    if not fields:
        return f"{string_source(tool)}: lambda args: {ExampleValue(returns, args).source()},"
    lines = (f"    {string_source(name)}: {source}," for name, source in fields.items())
    return "\n".join([f"{string_source(tool)}: lambda args: {{", *lines, "},"])


def _default_fields(args: JsonObject) -> dict[str, str]:
    repeated = {name: f"args[{string_source(name)}]" for name in islice(args, MAX_REPEATED_ARGS)}
    return {"success": "True", **repeated}
