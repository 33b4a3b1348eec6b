"""Checks the arguments of calls and the results of mocks against the real tool."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

import orjson
from msgspec import UNSET, Struct
from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError

from offbook.effects import UNDECLARED, ToolDeclaration
from offbook.errors import InputError, MockDriftError
from offbook.messages import JsonObject
from offbook.tools import ToolDef, ToolFunction, ToolSpec, tool_of
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
        """Return what is wrong with a result, one line per problem."""
        ...


class NoResultCheck:
    """Accepts every result."""

    def __init__(self) -> None:
        self.schema: JsonObject = {}

    def problems(self, result: Any) -> Sequence[str]:
        return ()


def build_result_check(declared: object, *, tool: str) -> ResultCheck:
    """Build the check for a tool's results from a JSON schema or a type hint; UNSET checks nothing.

    Raises:
        InputError: `declared` is neither; the error names the tool.
    """
    if declared is UNSET:
        return NoResultCheck()
    if isinstance(declared, Mapping):
        from offbook.scenarios.mocks.result_schema import SchemaResultCheck  # noqa: PLC0415 - jsonschema loads slowly

        return SchemaResultCheck(declared, tool=tool)

    return TypeResultCheck(declared, tool=tool)


GivenSchema: TypeAlias = "ToolSpec | ToolDef | ToolFunction | type[BaseModel] | JsonObject"


class RealTool(Struct, frozen=True):
    """What a tool accepts and returns, and what it declares about its effect.

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
"""A tool about which nothing is known: it accepts and returns anything."""


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
    """Return the return annotation of a function; UNSET if there is none."""
    try:
        returned = inspect.signature(function, eval_str=True).return_annotation
    except ValueError:
        return UNSET
    except (NameError, SyntaxError, TypeError, AttributeError) as error:
        hint = f'define the type at module level, or pass it: returns={{"{tool}": …}}'
        reason = f"the return annotation cannot be resolved: {error}"
        raise InputError(reason, source="mocks", place=f"schemas.{tool}", hint=hint) from error
    return UNSET if returned is inspect.Signature.empty else returned
