"""The real tool that a mock replaces: checks the arguments of calls and the results of mocks against it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

import orjson
from msgspec import UNSET, Struct
from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError

from offbook.errors import InputError, MockDriftError
from offbook.messages import JsonObject
from offbook.tools import ToolDef, ToolFunction, ToolSpec, tool_of
from offbook.tools.typed_parameters import validation_arguments_error

if TYPE_CHECKING:
    from pydantic import BaseModel


class TypeResultCheck:
    """Returns what a type hint says, read strictly from its JSON: `"5"` is no integer, but a date is text.

    Raises:
        InputError: there is no JSON for that type.
    """

    def __init__(self, hint: Any, *, tool: str) -> None:
        self._tool = tool
        try:
            self._adapter: TypeAdapter[Any] = TypeAdapter(hint)
            self.schema: JsonObject = self._adapter.json_schema(mode="serialization")
        except (PydanticUserError, PydanticUndefinedAnnotation, TypeError) as error:
            raise InputError(
                f"its type cannot be described: {str(error).splitlines()[0]}",
                source="mocks",
                place=f"returns.{tool}",
                hint=f'give a JSON schema, or Any to check nothing: returns={{"{tool}": Any}}',
            ) from error

    def problems(self, result: Any) -> Sequence[str]:
        try:
            self._adapter.validate_json(orjson.dumps(result), strict=True)
        except ValidationError as error:
            return validation_arguments_error(error, result, tool=self._tool).problems
        return ()


class ResultCheck(Protocol):
    """What a tool returns."""

    @property
    def schema(self) -> JsonObject:
        """The JSON schema of results."""
        ...

    def problems(self, result: Any) -> Sequence[str]:
        """What is wrong with a JSON value as a result, a line each."""
        ...


class NoResultCheck:
    """Returns whatever it likes."""

    def __init__(self) -> None:
        self.schema: JsonObject = {}

    def problems(self, result: Any) -> Sequence[str]:
        return ()


def build_result_check(declared: object, *, tool: str) -> ResultCheck:
    """The check for what `declared` says of a tool's results: a JSON schema, a type hint, or (UNSET) nothing.

    Raises:
        InputError: it is neither; the error names the tool.
    """
    if declared is UNSET:
        return NoResultCheck()
    if isinstance(declared, Mapping):
        from offbook.scenarios.mocks.result_schema import SchemaResultCheck  # noqa: PLC0415 - jsonschema loads slowly

        return SchemaResultCheck(declared, tool=tool)

    return TypeResultCheck(declared, tool=tool)


GivenSchema: TypeAlias = "ToolSpec | ToolDef | ToolFunction | type[BaseModel] | JsonObject"


class RealTool(Struct, frozen=True):
    """What a tool takes and what it returns, and whether running it twice does harm.

    `check_args` raises ToolArgumentsError for arguments that the tool would refuse.
    """

    check_args: Callable[[JsonObject], object]
    result: ResultCheck
    side_effect: bool = False

    def check_result(self, result: Any, *, tool: str) -> None:
        """Pass if the tool could return this.

        Raises:
            MockDriftError: it could not.
        """
        problems = self.result.problems(result)
        if problems:
            raise MockDriftError(problems, tool=tool)


UNKNOWN_TOOL = RealTool(ToolSpec("unknown").check, NoResultCheck())
"""A tool of which nothing is known: it takes anything, and returns anything."""


def build_real_tool(name: str, declared: GivenSchema | None = None, *, returns: object = UNSET) -> RealTool:
    """The tool that is declared by a function, a tool, a spec, or the schema of its arguments.

    `returns` is a JSON schema or a type hint; by default what a function says that it returns.

    Raises:
        InputError: it is declared wrongly; the error names the tool.
    """
    tool = declared_tool(declared, name=name)
    if isinstance(tool, ToolSpec):
        return RealTool(tool.check, build_result_check(returns, tool=name))
    if returns is UNSET:
        returns = _return_hint(tool.callable, tool=name)
    return RealTool(tool.bind, build_result_check(returns, tool=name), tool.side_effect)


def declared_tool(declared: GivenSchema | None, *, name: str) -> ToolDef | ToolSpec:
    """The tool, or what is known of it, that is declared so. Raises like `real_tool_of`."""
    if isinstance(declared, ToolDef | ToolSpec):
        return declared
    if declared is None or isinstance(declared, Mapping) or hasattr(declared, "model_json_schema"):
        return ToolSpec(name, parameters=cast("type[BaseModel] | JsonObject | None", declared))
    return tool_of(declared, name=name)


def _return_hint(function: ToolFunction, *, tool: str) -> object:
    """What a function says that it returns; UNSET if it does not say."""
    try:
        returned = inspect.signature(function, eval_str=True).return_annotation
    except ValueError:
        return UNSET
    except (NameError, SyntaxError, TypeError, AttributeError) as error:
        hint = f'define it at module level, or say what it returns: returns={{"{tool}": …}}'
        reason = f"what it returns cannot be resolved: {error}"
        raise InputError(reason, source="mocks", place=f"schemas.{tool}", hint=hint) from error
    return UNSET if returned is inspect.Signature.empty else returned
