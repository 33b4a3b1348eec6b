"""The real tool that a mock stands in for, as far as it is known."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from msgspec import UNSET, Struct

from offbook.errors import InputError, MockDriftError
from offbook.messages import JsonObject
from offbook.scenarios.mocks.result_check import AnyResult, ResultCheck, result_check_of
from offbook.tools import ToolDef, ToolFunction, ToolSpec, tool_of

if TYPE_CHECKING:
    from pydantic import BaseModel

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


UNKNOWN_TOOL = RealTool(ToolSpec("unknown").check, AnyResult())
"""A tool of which nothing is known: it takes anything, and returns anything."""


def real_tool_of(name: str, declared: GivenSchema | None = None, *, returns: object = UNSET) -> RealTool:
    """The tool that is declared by a function, a tool, a spec, or the schema of its arguments.

    `returns` is a JSON schema or a type hint; by default what a function says that it returns.

    Raises:
        InputError: it is declared wrongly; the error names the tool.
    """
    tool = tool_described(declared, name=name)
    if isinstance(tool, ToolSpec):
        return RealTool(tool.check, result_check_of(returns, tool=name))
    if returns is UNSET:
        returns = _return_hint(tool.callable, tool=name)
    return RealTool(tool.bind, result_check_of(returns, tool=name), tool.side_effect)


def tool_described(declared: GivenSchema | None, *, name: str) -> ToolDef | ToolSpec:
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
