"""Parameters declared as a JSON schema."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError, best_match
from jsonschema.protocols import Validator
from jsonschema.validators import validator_for
from referencing import Registry, Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012, SchemaResource

from offbook.errors import InputError
from offbook.messages import JsonObject
from offbook.tools.parameters import (
    argument_path,
    arguments_error,
    invalid_argument,
    missing_argument,
    unexpected_argument,
)

SHAPES = {"$ref", "allOf", "anyOf", "oneOf", "properties"}
"""Keywords of which a schema without a type has at least one."""


class SchemaParameters:
    """Parameters declared as a JSON schema: of the draft in its `$schema`, else of 2020-12.

    Formats (`date`, `email`) are checked too. A `$ref` must point into the schema itself: nothing is fetched.

    Raises:
        InputError: the schema is not valid, or not that of an object.
    """

    def __init__(self, schema: Mapping[str, Any], *, tool: str) -> None:
        self._tool = tool
        self.schema: JsonObject = _object_schema(schema, tool=tool)
        self._validator = _validator_of(self.schema, tool=tool)

    def check(self, args: JsonObject) -> None:
        errors = list(self._validator.iter_errors(args))
        if errors:
            raise arguments_error((line for error in errors for line in _problems(error)), tool=self._tool)


def _object_schema(schema: Mapping[str, Any], *, tool: str) -> JsonObject:
    shaped = not schema or schema.keys() & {"type", *SHAPES}
    if not shaped or schema.get("type", "object") != "object" or not isinstance(schema.get("$schema", ""), str):
        raise InputError(
            "expected the JSON schema of an object",
            source=tool,
            place="parameters",
            hint='{"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}',
        )
    return {"type": "object", **schema}


def _validator_of(schema: JsonObject, *, tool: str) -> Validator:
    kind = validator_for(schema, default=Draft202012Validator)
    try:
        kind.check_schema(schema)
        _check_references(Resource.from_contents(schema, default_specification=DRAFT202012))
    except SchemaError as error:
        place = argument_path(["parameters", *error.absolute_path])
        raise InputError(f"not a valid JSON schema: {error.message}", source=tool, place=place) from None
    except Unresolvable as error:
        hint = "a $ref points into the schema itself, like #/$defs/place; nothing is fetched"
        raise InputError(
            f"$ref to {error.ref}, which does not exist", source=tool, place="parameters", hint=hint
        ) from None
    return kind(schema, registry=Registry(), format_checker=kind.FORMAT_CHECKER)


def _check_references(root: SchemaResource) -> None:
    waiting = [(root, Registry[Any]().resolver_with_root(root))]
    while waiting:
        resource, resolver = waiting.pop()
        if isinstance(resource.contents, Mapping) and "$ref" in resource.contents:
            resolver.lookup(resource.contents["$ref"])
        waiting.extend((part, resolver.in_subresource(part)) for part in resource.subresources())


def _problems(error: ValidationError) -> Iterator[str]:
    error = best_match([error]) or error
    path, given, expected = list(error.absolute_path), cast("Any", error.instance), cast("Any", error.validator_value)
    if error.validator == "required":
        yield from (missing_argument(argument_path([*path, name])) for name in expected if name not in given)
    elif error.validator == "additionalProperties" and expected is False:
        yield from (
            unexpected_argument(argument_path([*path, name]))
            for name in _additional(given, cast("JsonObject", error.schema))
        )
    else:
        yield invalid_argument(argument_path(path), error.message.removeprefix(repr(given)).lstrip(), given)


def _additional(given: JsonObject, schema: JsonObject) -> Iterator[str]:
    patterns = schema.get("patternProperties", {})
    for name in given:
        if name not in schema.get("properties", {}) and not any(re.search(pattern, name) for pattern in patterns):
            yield name
