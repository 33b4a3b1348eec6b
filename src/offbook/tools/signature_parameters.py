"""Parameters declared in Python: as the signature and docstring of a function, or as a pydantic model."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from inspect import Parameter
from types import SimpleNamespace
from typing import Any, NotRequired, TypeVar, get_type_hints

import docstring_parser
from msgspec import Struct
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, PydanticSerializationError, to_json, to_jsonable_python
from typing_extensions import TypedDict

from offbook.errors import InputError, ToolArgumentsError
from offbook.messages import JsonObject
from offbook.tools.definition import ToolFunction
from offbook.tools.parameters import (
    argument_path,
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
        return missing_argument(argument_path([*existing_parts(location[:-1], args), location[-1]]))
    path = argument_path(existing_parts(location, args))
    if detail["type"] == "extra_forbidden":
        return unexpected_argument(path)
    reason = detail["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
    return invalid_argument(path, reason, detail["input"])


UNSUPPORTED_TYPE = (PydanticUserError, PydanticUndefinedAnnotation, TypeError)


class FunctionParameters:
    """The parameters of a function. Arguments are converted to the types of its hints.

    Args:
        function: the function. Arguments that a `partial` has bound are not parameters.
        globals: the names that its hints may use.
        descriptions: of parameters whose hints have none.
        tool: the tool's name, for errors.

    Raises:
        InputError: a parameter cannot be passed by name, or its hint cannot be resolved or has no JSON schema.
    """

    def __init__(
        self, function: ToolFunction, *, globals: Mapping[str, Any], descriptions: Mapping[str, str], tool: str
    ) -> None:
        self._tool = tool
        parameters = _parameters(function, tool=tool)
        named = [each for each in parameters if each.kind is not Parameter.VAR_KEYWORD]
        hints = {each.name: _hint(each, globals, tool=tool) for each in named}
        try:
            self._adapter = _adapter(named, hints, is_open=len(named) < len(parameters))
            self._validate: Callable[[JsonObject], JsonObject] = self._adapter.validator.validate_python
            schema = self._adapter.json_schema()
        except UNSUPPORTED_TYPE as error:
            raise _unsupported_type_error(error, hints, tool=tool) from error
        self.schema: JsonObject = _with_descriptions(compact_schema(schema), named, descriptions)

    def check(self, args: JsonObject) -> None:
        self.convert(args)

    def convert(self, args: JsonObject) -> JsonObject:
        """Return the arguments converted to the types of the hints. Omitted ones stay out, so that defaults apply.

        Raises:
            ToolArgumentsError: they do not fit.
        """
        try:
            return self._validate(args)
        except ValidationError:
            return _validate_json(self._adapter.validate_json, args, tool=self._tool)


def _parameters(function: ToolFunction, *, tool: str) -> list[Parameter]:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except ValueError:
        raise InputError("the function has no signature", source=tool, hint="wrap it in a def") from None
    if parameters and parameters[0].name == "self" and parameters[0].annotation is Parameter.empty:
        raise InputError("the function is an unbound method", source=tool, hint="tool_of(thing.method)")
    bound = function.keywords if isinstance(function, partial) else {}
    required = [each for each in parameters if each.name not in bound]
    for each in required:
        _check_kind(each, tool=tool)
    return required


def _check_kind(parameter: Parameter, *, tool: str) -> None:
    if parameter.kind is Parameter.VAR_POSITIONAL:
        hint = f"take a list: {parameter.name}: list[…]"
        raise InputError("a model passes arguments by name", source=tool, place=str(parameter), hint=hint)
    if parameter.kind is Parameter.POSITIONAL_ONLY:
        hint = "remove the / from the signature"
        raise InputError("a model passes arguments by name", source=tool, place=parameter.name, hint=hint)
    if isinstance(parameter.default, FieldInfo):
        hint = f"{parameter.name}: Annotated[…, Field(…)]"
        raise InputError("a Field is not a default of a function", source=tool, place=parameter.name, hint=hint)


def _hint(parameter: Parameter, globals: Mapping[str, Any], *, tool: str) -> Any:
    if parameter.annotation is Parameter.empty:
        return Any
    annotated = SimpleNamespace(__annotations__={"hint": parameter.annotation})
    try:
        return get_type_hints(annotated, dict(globals), include_extras=True)["hint"]
    except (NameError, SyntaxError, TypeError, AttributeError) as error:
        reason = f"its hint cannot be resolved: {error}"
        raise InputError(reason, source=tool, place=parameter.name, hint="define it at module level") from error


def _adapter(parameters: list[Parameter], hints: Mapping[str, Any], *, is_open: bool) -> TypeAdapter[JsonObject]:
    fields = {
        each.name: hints[each.name] if each.default is Parameter.empty else NotRequired[hints[each.name]]
        for each in parameters
    }
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


def _with_descriptions(schema: JsonObject, parameters: list[Parameter], descriptions: Mapping[str, str]) -> JsonObject:
    for each in parameters:
        shape = schema["properties"].get(each.name, {})
        if each.name in descriptions:
            shape.setdefault("description", descriptions[each.name])
        if each.default is not Parameter.empty:
            shape |= _default(each.default)
    return schema


def _default(value: object) -> JsonObject:
    try:
        return {"default": to_jsonable_python(value)}
    except PydanticSerializationError:
        return {}


class FunctionDocs(Struct, frozen=True):
    """A function's description, and those of its parameters by name."""

    description: str
    parameters: Mapping[str, str]


def parse_docstring(docstring: str | None) -> FunctionDocs:
    """Parse a docstring in Google, NumPy or reST style; any other is a description as a whole."""
    text = inspect.cleandoc(docstring or "")
    try:
        parsed = docstring_parser.parse(text)
    except (docstring_parser.ParseError, LookupError):  # the library fails on some reST, such as ": :param"
        return FunctionDocs(text, {})
    return FunctionDocs(
        (parsed.description or "").strip(),
        {each.arg_name: each.description for each in parsed.params if each.description},
    )
