"""The known parts of the tool behind a mock: checks of arguments and results, and the mock to suggest."""

from __future__ import annotations

import difflib
import inspect
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

import orjson
from msgspec import UNSET, Struct
from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError

from offbook.errors import InputError, MockDriftError, MockError, UnmockedToolError
from offbook.messages import JsonObject
from offbook.text import path_text
from offbook.tools import ToolDef, ToolFunction, ToolSpec, tool_of
from offbook.tools.effects import UNDECLARED, ToolDeclaration
from offbook.tools.pydantic_parameters import validation_arguments_error

if TYPE_CHECKING:
    from pydantic import BaseModel


class TypeResultCheck:
    """Checks a result against a type hint, strictly and as JSON: `"5"` is not an int, but a date is a str.

    Raises:
        InputError: the type has no JSON form.
    """

    def __init__(self, hint: Any, *, tool: str) -> None:
        self._tool = tool
        try:
            self._adapter: TypeAdapter[Any] = TypeAdapter(hint)
            self.schema: JsonObject = self._adapter.json_schema(mode="serialization")
        except (PydanticUserError, PydanticUndefinedAnnotation, TypeError) as error:
            raise InputError(
                f"the type has no JSON schema: {str(error).splitlines()[0]}",
                source="mocks",
                place=f"returns.{tool}",
                hint=f'pass a JSON schema, or Any to check nothing: returns={{"{tool}": Any}}',
            ) from error

    def problems(self, result: Any) -> Sequence[str]:
        try:
            self._adapter.validate_json(orjson.dumps(result), strict=True)
        except ValidationError as error:
            return validation_arguments_error(error, result, tool=self._tool).problems
        return ()


class ResultCheck(Protocol):
    """Checks the results of a tool."""

    @property
    def schema(self) -> JsonObject:
        """The JSON schema of results."""
        ...

    def problems(self, result: Any) -> Sequence[str]:
        """Return the problems of a result, one line per problem."""
        ...


class NoResultCheck:
    """Accepts every result."""

    def __init__(self) -> None:
        self.schema: JsonObject = {}

    def problems(self, result: Any) -> Sequence[str]:
        return ()


class SchemaResultCheck:
    """Checks a result against a JSON schema, of the draft that its `$schema` names, or else of 2020-12.

    Raises:
        InputError: the schema is not valid.
    """

    def __init__(self, schema: Mapping[str, Any], *, tool: str) -> None:
        from jsonschema.exceptions import SchemaError  # noqa: PLC0415 - jsonschema loads slowly
        from referencing import Registry  # noqa: PLC0415

        from offbook.tools.schema_parameters import validator_class  # noqa: PLC0415

        self._tool = tool
        self.schema: JsonObject = dict(schema)
        kind = validator_class(self.schema)
        try:
            kind.check_schema(self.schema)
        except SchemaError as error:
            place = path_text(["returns", tool, *error.absolute_path])
            raise InputError(f"invalid JSON schema: {error.message}", source="mocks", place=place) from None
        self._validator = kind(self.schema, registry=Registry(), format_checker=kind.FORMAT_CHECKER)

    def problems(self, result: Any) -> Sequence[str]:
        from referencing.exceptions import Unresolvable  # noqa: PLC0415

        from offbook.tools.schema_parameters import value_problems  # noqa: PLC0415

        try:
            return value_problems(self._validator, result)
        except Unresolvable as error:
            message = f"the schema of the results of {self._tool!r} has a $ref to {error.ref}, which does not exist"
            raise MockError(message, tool=self._tool) from None


def build_result_check(declared: object, *, tool: str) -> ResultCheck:
    """Build the check for a tool's results from a JSON schema or a type hint; UNSET checks nothing.

    Raises:
        InputError: `declared` is neither; the error names the tool.
    """
    if declared is UNSET:
        return NoResultCheck()
    if isinstance(declared, Mapping):
        return SchemaResultCheck(declared, tool=tool)

    return TypeResultCheck(declared, tool=tool)


GivenSchema: TypeAlias = "ToolSpec | ToolDef | ToolFunction | type[BaseModel] | JsonObject"


class RealTool(Struct, frozen=True):
    """The known parts of a tool: its accepted arguments, its results, and its declared effect.

    `check_args` raises ToolArgumentsError for arguments that the tool would reject.
    """

    check_args: Callable[[JsonObject], object]
    result: ResultCheck
    declaration: ToolDeclaration = UNDECLARED

    def check_result(self, result: Any, *, tool: str) -> None:
        """Check a result of the tool.

        Raises:
            MockDriftError: the tool could not return it.
        """
        problems = self.result.problems(result)
        if problems:
            raise MockDriftError(problems, tool=tool)


UNKNOWN_TOOL = RealTool(ToolSpec("unknown").check, NoResultCheck())
"""A tool without known properties: it accepts and returns anything."""


def build_real_tool(name: str, declared: GivenSchema | None = None, *, returns: object = UNSET) -> RealTool:
    """Build the real tool from a function, a tool, a spec, or the schema of its arguments.

    `returns` is a JSON schema or a type hint; the default is the return annotation of a function.

    Raises:
        InputError: the declaration is invalid; the error names the tool.
    """
    tool = declared_tool(declared, name=name)
    if isinstance(tool, ToolSpec):
        return RealTool(tool.check, build_result_check(returns, tool=name))
    if returns is UNSET:
        returns = _return_hint(tool.callable, tool=name)
    return RealTool(tool.bind, build_result_check(returns, tool=name), tool.declaration)


def declared_tool(declared: GivenSchema | None, *, name: str) -> ToolDef | ToolSpec:
    """Return the declared tool, or its spec. Raises like `build_real_tool`."""
    if isinstance(declared, ToolDef | ToolSpec):
        return declared
    if declared is None or isinstance(declared, Mapping) or hasattr(declared, "model_json_schema"):
        return ToolSpec(name, parameters=cast("type[BaseModel] | JsonObject | None", declared))
    return tool_of(declared, name=name)


def _return_hint(function: ToolFunction, *, tool: str) -> object:
    """Return a function's return annotation, or UNSET."""
    try:
        returned = inspect.signature(function, eval_str=True).return_annotation
    except ValueError:
        return UNSET
    except (NameError, SyntaxError, TypeError, AttributeError) as error:
        hint = f'define the type at module level, or pass it: returns={{"{tool}": …}}'
        reason = f"the return annotation cannot be resolved: {error}"
        raise InputError(reason, source="mocks", place=f"schemas.{tool}", hint=hint) from error
    return UNSET if returned is inspect.Signature.empty else returned


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
                found: Any = self._root
                for part in schema["$ref"].removeprefix("#").split("/")[1:]:
                    found = found.get(part, {})
                schema = found if isinstance(found, dict) else {}
        if isinstance(schema.get("type"), list):
            return {**schema, "type": next((kind for kind in schema["type"] if kind != "null"), "null")}
        return schema


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
