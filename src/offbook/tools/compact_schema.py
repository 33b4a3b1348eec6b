"""JSON schemas without what only costs tokens."""

from __future__ import annotations

from typing import Any

from offbook.messages import JsonObject

NAMED_SCHEMAS = {"properties", "$defs", "patternProperties"}
VALUES = {"default", "const", "enum", "examples"}


def compact(schema: JsonObject) -> JsonObject:
    """The schema that pydantic made without its titles, which repeat the names."""
    return {name: _compacted(name, part) for name, part in schema.items() if name != "title"}


def _compacted(name: str, part: Any) -> Any:
    if name in VALUES:
        return part
    if name in NAMED_SCHEMAS:
        return {key: compact(schema) for key, schema in part.items()}
    if isinstance(part, dict):
        return compact(part)
    return [_compacted("", item) for item in part] if isinstance(part, list) else part
