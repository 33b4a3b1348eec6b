"""Toolbox: the tools of an agent, by name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from offbook.errors import InputError
from offbook.messages import JsonObject
from offbook.tools.definition import ToolDef, ToolFunction, ToolSpec
from offbook.tools.function_tool import tool_of

GivenTool: TypeAlias = ToolDef | ToolFunction
GivenTools: TypeAlias = Mapping[str, GivenTool] | Iterable[GivenTool]

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class Toolbox(Mapping[str, ToolDef]):
    """Tools by name, in the order given; never changed.

    Args:
        tools: functions, and tools as `tool_of` and `ToolDef` make them. Under a mapping the key is the
            name: a function takes it, a tool must have it already.

    Raises:
        InputError: a name that models do not take, or that is there twice; something that is no tool.
    """

    def __init__(self, tools: GivenTools = ()) -> None:
        self._tools = _by_name(tools)
        self.specs: tuple[ToolSpec, ...] = tuple(tool.spec for tool in self._tools.values())
        self.functions: tuple[JsonObject, ...] = tuple(spec.function for spec in self.specs)

    def __getitem__(self, name: str) -> ToolDef:
        return self._tools[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)

    def __repr__(self) -> str:
        return f"Toolbox({', '.join(self._tools)})"


def _by_name(tools: GivenTools) -> dict[str, ToolDef]:
    if isinstance(tools, Mapping):
        return {name: _tool(tool, name=_checked_name(name)) for name, tool in tools.items()}
    if isinstance(tools, str) or not isinstance(tools, Iterable):
        raise InputError(f"expected a list or dict of tools, got {_type_and_repr(tools)}", source="tools")
    named: dict[str, ToolDef] = {}
    for index, given in enumerate(tools):
        tool = _tool(given, place=f"tools[{index}]")
        if _checked_name(tool.name) in named:
            raise InputError(f"there are two tools named {tool.name}", source="tools")
        named[tool.name] = tool
    return named


def _tool(given: object, *, name: str | None = None, place: str = "") -> ToolDef:
    if isinstance(given, ToolDef):
        if name is not None and given.name != name:
            raise InputError(f"the tool is named {given.name}", source="tools", place=name, hint="name it as its key")
        return given
    if callable(given):
        return tool_of(given, name=name)
    raise InputError(
        f"expected a function or ToolDef, got {_type_and_repr(given)}", source="tools", place=name or place
    )


def _type_and_repr(value: object) -> str:
    return f"{type(value).__name__} {value!r}"


def _checked_name(name: object) -> str:
    if isinstance(name, str) and NAME.fullmatch(name):
        return name
    raise InputError(
        f"{name!r} is no name that models take",
        source="tools",
        hint="letters, digits, _ and -, 64 at most; tool_of(function, name=…) gives another name",
    )
