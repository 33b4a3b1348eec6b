"""Parameters that pydantic validates: a model, or the typed arguments of a function."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from functools import cached_property
from typing import Any, NotRequired, TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError
from pydantic_core import ErrorDetails, PydanticSerializationError, to_json, to_jsonable_python
from typing_extensions import TypedDict

from offbook.errors import InputError, ToolArgumentsError
from offbook.messages import JsonObject
from offbook.text import path_text
from offbook.tools.parameters import (
    arguments_error,
    existing_parts,
    invalid_argument,
    missing_argument,
    unexpected_argument,
)

T = TypeVar("T")
NAMED_SCHEMAS = {"properties", "$defs", "patternProperties"}
VALUES = {"default", "const", "enum", "examples"}


def compact_schema(schema: JsonObject) -> JsonObject:
    """Return a schema of pydantic without its titles, which repeat the names."""
    return {name: _compact_part(name, part) for name, part in schema.items() if name != "title"}


def _compact_part(name: str, part: Any) -> Any:
    if name in VALUES:
        return part
    if name in NAMED_SCHEMAS:
        return {key: compact_schema(schema) for key, schema in part.items()}
    if isinstance(part, dict):
        return compact_schema(part)
    return [_compact_part("", item) for item in part] if isinstance(part, list) else part


class ModelParameters:
    """Parameters declared as a pydantic model, which validates the arguments."""

    def __init__(self, model: type[BaseModel], *, tool: str) -> None:
        self._model, self._tool = model, tool

    @cached_property
    def schema(self) -> JsonObject:
        try:
            return compact_schema(self._model.model_json_schema())
        except PydanticUserError as error:
            raise InputError(error.message, source=self._tool, place=self._model.__name__) from error

    def check(self, args: JsonObject) -> None:
        try:
            self._model.model_validate(args)
        except ValidationError:
            _validate_json(self._model.model_validate_json, args, tool=self._tool)


def _validate_json(validate: Callable[[bytes], T], args: JsonObject, *, tool: str) -> T:
    """Validate the arguments as JSON text: a strict type accepts a date from JSON, but not from a Python string.

    Raises:
        ToolArgumentsError: they do not fit.
    """
    try:
        return validate(to_json(args, fallback=repr))
    except ValidationError as error:
        raise validation_arguments_error(error, args, tool=tool) from None


def validation_arguments_error(error: ValidationError, args: JsonObject, *, tool: str) -> ToolArgumentsError:
    """Return the error of pydantic in words for a model."""
    return arguments_error((_problem(detail, args) for detail in error.errors(include_url=False)), tool=tool)


def _problem(detail: ErrorDetails, args: JsonObject) -> str:
    location = detail["loc"]
    if detail["type"] == "missing":
        return missing_argument(path_text([*existing_parts(location[:-1], args), location[-1]]))
    path = path_text(existing_parts(location, args))
    if detail["type"] == "extra_forbidden":
        return unexpected_argument(path)
    reason = detail["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
    return invalid_argument(path, reason, detail["input"])


UNSUPPORTED_TYPE = (PydanticUserError, PydanticUndefinedAnnotation, TypeError)


class TypedArguments:
    """The arguments of a function with any hints, converted to their types.

    Args:
        hints: the types by name.
        optional: the names that may be left out.
        is_open: whether other names are allowed.
        tool: the tool's name, for errors.

    Raises:
        InputError: a type has no JSON schema.
    """

    def __init__(self, hints: Mapping[str, Any], *, optional: Container[str], is_open: bool, tool: str) -> None:
        self._tool = tool
        try:
            self._adapter = _adapter(hints, optional, is_open=is_open)
            self._validate: Callable[[JsonObject], JsonObject] = self._adapter.validator.validate_python
            self.schema = compact_schema(self._adapter.json_schema())
        except UNSUPPORTED_TYPE as error:
            raise _unsupported_type_error(error, hints, tool=tool) from error

    def convert(self, args: JsonObject) -> JsonObject:
        try:
            return self._validate(args)
        except ValidationError:
            return _validate_json(self._adapter.validate_json, args, tool=self._tool)


def _adapter(hints: Mapping[str, Any], optional: Container[str], *, is_open: bool) -> TypeAdapter[JsonObject]:
    fields = {name: NotRequired[hint] if name in optional else hint for name, hint in hints.items()}
    typed_dict: Any = TypedDict  # a type checker expects a class whose fields it can read
    arguments = typed_dict("arguments", fields)
    arguments.__pydantic_config__ = ConfigDict(extra="allow" if is_open else "forbid")
    return TypeAdapter(arguments)


def _unsupported_type_error(error: Exception, hints: Mapping[str, Any], *, tool: str) -> InputError:
    """Return the error for the parameter whose type has no JSON schema."""
    culprit = next((name for name, hint in hints.items() if not _has_schema(hint)), "")
    return InputError(f"its type has no JSON schema: {str(error).splitlines()[0]}", source=tool, place=culprit)


def _has_schema(hint: Any) -> bool:
    try:
        TypeAdapter(hint).json_schema()
    except UNSUPPORTED_TYPE:
        return False
    return True


def json_default(value: object) -> JsonObject:
    """Return a default as the part of a schema; empty if JSON cannot represent it."""
    try:
        return {"default": to_jsonable_python(value)}
    except PydanticSerializationError:
        return {}
