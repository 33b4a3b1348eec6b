"""Parameters declared as a JSON schema."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, cast

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError, best_match
from jsonschema.protocols import Validator
from jsonschema.validators import extend, validator_for
from referencing import Registry, Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012, SchemaResource

from offbook.errors import InputError
from offbook.messages import JsonObject
from offbook.text import compile_pattern, path_text
from offbook.tools.parameters import (
    arguments_error,
    invalid_argument,
    missing_argument,
    unexpected_argument,
)

SHAPES = {"$ref", "allOf", "anyOf", "oneOf", "properties"}
"""A schema without a type has at least one of these keywords."""


class SchemaParameters:
    """Parameters declared as a JSON schema: of the draft in its `$schema`, else of 2020-12.

    Formats (`date`, `email`) are checked too. A `$ref` must point into the schema itself: nothing is fetched.

    Raises:
        InputError: the schema is not valid, or not that of an object.
    """

    def __init__(self, schema: Mapping[str, Any], *, tool: str) -> None:
        self._tool = tool
        self.schema: JsonObject = _object_schema(schema, tool=tool)
        self._validator = validator_of(self.schema, source=tool, place="parameters")

    def check(self, args: JsonObject) -> None:
        errors = list(self._validator.iter_errors(args))
        if errors:
            raise arguments_error((line for error in errors for line in _problems(error)), tool=self._tool)


def schema_problem(schema: JsonObject, value: JsonObject) -> str:
    """Return why a value does not fit a schema, in the words of jsonschema, or "" if it fits or that is unknown."""
    try:
        kind = validator_class(schema)
        kind.check_schema(schema)
        error = best_match(kind(schema, registry=Registry()).iter_errors(value))
    except (SchemaError, Unresolvable):
        return ""
    return "" if error is None else str(error.message)


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


def validator_of(schema: JsonObject, *, source: str, place: str) -> Validator:
    """Return the validator of a schema, which also checks formats.

    Raises:
        InputError: the schema is not valid; names its `source` and `place`.
    """
    kind = validator_class(schema)
    try:
        kind.check_schema(schema)
        _check_references(Resource.from_contents(schema, default_specification=DRAFT202012))
    except SchemaError as error:
        where = path_text([place, *error.absolute_path])
        raise InputError(f"not a valid JSON schema: {error.message}", source=source, place=where) from None
    except Unresolvable as error:
        hint = "a $ref points into the schema itself, like #/$defs/place; nothing is fetched"
        raise InputError(f"$ref to {error.ref}, which does not exist", source=source, place=place, hint=hint) from None
    return kind(schema, registry=Registry(), format_checker=kind.FORMAT_CHECKER)


def value_problems(validator: Validator, value: Any) -> list[str]:
    """Return what is wrong with any value, one line per problem.

    Raises:
        Unresolvable: the schema has a `$ref` that does not exist, which `validator_of` refuses.
    """
    errors = [best_match([error]) or error for error in validator.iter_errors(value)]
    return [invalid_argument(path_text(error.absolute_path), error.message, error.instance) for error in errors]


def validator_class(schema: JsonObject) -> type[Validator]:
    """Return the validator of the draft that the schema names, else of 2020-12, with patterns of bounded time."""
    return _with_bounded_patterns(validator_for(schema, default=Draft202012Validator))


@cache
def _with_bounded_patterns(kind: Any) -> type[Validator]:
    known = {name: rule for name, rule in _PATTERN_RULES.items() if name in kind.VALIDATORS}
    return cast("type[Validator]", extend(kind, known))  # type: ignore[no-untyped-call]


def _check_pattern(validator: Any, pattern: str, value: Any, _: Any) -> Iterator[ValidationError]:
    if validator.is_type(value, "string") and not compile_pattern(pattern).is_in(value):
        yield ValidationError(f"{value!r} does not match {pattern!r}")


def _check_patterned(validator: Any, schemas: Mapping[str, Any], value: Any, _: Any) -> Iterator[ValidationError]:
    for pattern, schema in schemas.items() if validator.is_type(value, "object") else ():
        for name, item in value.items():
            if compile_pattern(pattern).is_in(name):
                yield from validator.descend(item, schema, path=name, schema_path=pattern)


def _check_additional(validator: Any, rule: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    names = list(_additional(value, schema)) if validator.is_type(value, "object") else []
    if validator.is_type(rule, "object"):
        for name in names:
            yield from validator.descend(value[name], rule, path=name)
    elif not rule and names:
        yield ValidationError(f"additional properties are not allowed: {', '.join(map(repr, names))}")


_PATTERN_RULES = {
    "pattern": _check_pattern,
    "patternProperties": _check_patterned,
    "additionalProperties": _check_additional,
}


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
        yield from (missing_argument(path_text([*path, name])) for name in expected if name not in given)
    elif error.validator == "additionalProperties" and expected is False:
        yield from (
            unexpected_argument(path_text([*path, name]))
            for name in _additional(given, cast("JsonObject", error.schema))
        )
    else:
        yield invalid_argument(path_text(path), error.message.removeprefix(repr(given)).lstrip(), given)


def _additional(given: JsonObject, schema: JsonObject) -> Iterator[str]:
    patterns = schema.get("patternProperties", {})
    for name in given:
        if name not in schema.get("properties", {}) and not _is_patterned(name, patterns):
            yield name


def _is_patterned(name: str, patterns: Iterable[str]) -> bool:
    return any(compile_pattern(pattern).is_in(name) for pattern in patterns)
