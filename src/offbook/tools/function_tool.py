"""Creates tools from plain functions: `tool` and `tool_of`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MethodType
from typing import TYPE_CHECKING, Any, overload

from offbook.errors import InputError
from offbook.messages import JsonObject
from offbook.tools.definition import ToolDef, ToolFunction, ToolSpec

if TYPE_CHECKING:
    from offbook.tools.signature_parameters import FunctionParameters


class FunctionTool(ToolDef, frozen=True, dict=True, kw_only=True):
    """A tool made from a function. Arguments are converted to the types of its hints: a date, an enum, a model.

    Calling the tool calls the function.
    """

    parameters: FunctionParameters

    def bind(self, args: JsonObject) -> JsonObject:
        return self.parameters.convert(args)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.callable(*args, **kwargs)


def tool_of(
    function: ToolFunction,
    *,
    name: str | None = None,
    description: str | None = None,
    prerequisites: Sequence[str | Mapping[str, str]] = (),
    timeout_s: float | None = None,
    side_effect: bool = False,
    repeatable: bool = False,
    idempotent: bool | str = False,
    undoes: str | None = None,
    read_only: bool = False,
) -> FunctionTool:
    """Create a tool from a function: its parameters from the hints, its description from the docstring.

    Args:
        function: anything that can be called with arguments by name, synchronous or not. Its docstring
            may describe the parameters in Google, NumPy or reST style; `Annotated[…, Field(…)]` is
            supported, and a parameter without a hint accepts anything.
        name: the tool's name; by default the function's.
        description: the tool's description; by default the docstring's.
        prerequisites, timeout_s, side_effect, repeatable, idempotent, undoes, read_only: as in `ToolDef`.

    Raises:
        InputError: a parameter cannot be passed by name, or its hint cannot be resolved or has no JSON schema.
    """
    from offbook.tools.signature_parameters import (  # noqa: PLC0415 - it loads pydantic, which is slow
        FunctionParameters,
        parse_docstring,
    )

    if not callable(function):
        raise InputError(f"expected a function, got {type(function).__name__} {function!r}", source=name or "tool_of")
    written = _unwrapped(function)
    name = _name(written) if name is None else name
    documentation = parse_docstring(_docstring(written))
    parameters = FunctionParameters(
        function, globals=_globals(written), descriptions=documentation.parameters, tool=name
    )
    spec = ToolSpec(name, documentation.description if description is None else description, parameters)
    return FunctionTool(
        spec=spec,
        callable=function,
        prerequisites=prerequisites,
        timeout_s=timeout_s,
        side_effect=side_effect,
        repeatable=repeatable,
        idempotent=idempotent,
        undoes=undoes,
        read_only=read_only,
        parameters=parameters,
    )


@overload
def tool(function: ToolFunction, /) -> FunctionTool: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    prerequisites: Sequence[str | Mapping[str, str]] = (),
    timeout_s: float | None = None,
    side_effect: bool = False,
    repeatable: bool = False,
    idempotent: bool | str = False,
    undoes: str | None = None,
    read_only: bool = False,
) -> Callable[[ToolFunction], FunctionTool]: ...
def tool(function: ToolFunction | None = None, /, **options: Any) -> Any:
    """Decorate a function to make it a tool: `@tool`, or `@tool(side_effect=True)` with the options of `tool_of`."""
    return partial(tool_of, **options) if function is None else tool_of(function)


def _unwrapped(function: ToolFunction) -> ToolFunction:
    """Return the function, class or object itself, without wrappers."""
    while True:
        match function:
            case partial():
                function = function.func
            case MethodType() | staticmethod():
                function = function.__func__
            case _ if hasattr(function, "__wrapped__"):
                function = inspect.unwrap(function)
            case _:
                return function


def _name(written: ToolFunction) -> str:
    return getattr(written, "__name__", type(written).__name__)


def _docstring(written: ToolFunction) -> str | None:
    if hasattr(written, "__name__"):
        return written.__doc__
    return type(written).__call__.__doc__ or type(written).__doc__


def _globals(written: ToolFunction) -> Mapping[str, Any]:
    return getattr(written, "__globals__", None) or getattr(type(written).__call__, "__globals__", {})
