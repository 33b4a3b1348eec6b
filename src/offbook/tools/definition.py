"""ToolDef and ToolSpec: a tool as an agent holds it and as the model sees it, and tools that wrap another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias

from msgspec import Struct

from offbook.errors import InputError
from offbook.messages import JsonObject
from offbook.tools.parameters import DeclaredParameters, Parameters, parameters_of


class ToolSpec(Struct, frozen=True, dict=True):
    """A tool's name, what it does and what it takes.

    `parameters` is a pydantic model, a JSON schema, or None for a tool that takes nothing.

    Raises:
        InputError: `parameters` is none of these, or no valid schema.
    """

    name: str
    description: str = ""
    parameters: DeclaredParameters = None

    def __post_init__(self) -> None:
        self._parameters  # noqa: B018 - a wrong declaration is told where it is made

    @cached_property
    def _parameters(self) -> Parameters:
        return parameters_of(self.parameters, source=self.name)

    @cached_property
    def schema(self) -> JsonObject:
        """The JSON schema of the arguments."""
        return self._parameters.schema

    @cached_property
    def function(self) -> JsonObject:
        """The tool in the OpenAI chat shape."""
        function = {"name": self.name, "description": self.description, "parameters": self.schema}
        return {"type": "function", "function": function}

    def check(self, args: JsonObject) -> JsonObject:
        """The arguments as they came, if they are what the tool takes.

        Raises:
            ToolArgumentsError: they are not; it says what is wrong with which.
        """
        self._parameters.check(args)
        return args


ToolFunction: TypeAlias = Callable[..., Any]


class ToolDef(Struct, frozen=True, dict=True):
    """A tool as an agent holds it.

    Args:
        spec: what the model is told.
        callable: takes the arguments by name, as the model gave them; sync or async. What it returns
            goes to the model as text, what it raises is told to the model as an error.
        prerequisites: tools that must have run before: a name, or `{"tool": name, "match_arg": arg}`
            where that tool must have run with the same value of that argument.
        timeout_s: how long a call may take; a synchronous function is then run in a thread.
        side_effect: whether running it twice does harm, so that tests can count.
        repeatable: whether calling it again with the same arguments is fine however often, as when polling.

    Raises:
        InputError: `callable` cannot be called, or `timeout_s` is no time.
    """

    spec: ToolSpec
    callable: ToolFunction
    prerequisites: Sequence[str | Mapping[str, str]] = ()
    timeout_s: float | None = None
    side_effect: bool = False
    repeatable: bool = False

    def __post_init__(self) -> None:
        if not callable(self.callable):
            raise InputError(f"expected a function, got {self.callable!r}", source=self.name, place="callable")
        if self.timeout_s is not None and not self.timeout_s > 0:
            raise InputError(f"expected more than 0, got {self.timeout_s!r}", source=self.name, place="timeout_s")

    @property
    def name(self) -> str:
        return self.spec.name

    def bind(self, args: JsonObject) -> JsonObject:
        """The arguments that `callable` is called with, by name.

        Raises:
            ToolArgumentsError: they are not what the tool takes.
        """
        return self.spec.check(args)


class WrappedTool(ToolDef, frozen=True, kw_only=True):
    """A tool that takes the arguments of `original`, checked as there, and hands them on as the model gave them."""

    original: ToolDef

    def bind(self, args: JsonObject) -> JsonObject:
        self.original.bind(args)
        return args

    def __call__(self, **arguments: Any) -> Any:
        return self.callable(**arguments)


def wrap_tool(tool: ToolDef, function: ToolFunction, *, timeout_s: float | None) -> WrappedTool:
    """The tool with another callable in the place of its own."""
    return WrappedTool(
        tool.spec, function, tool.prerequisites, timeout_s, tool.side_effect, tool.repeatable, original=tool
    )
