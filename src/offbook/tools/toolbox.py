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
    """An immutable mapping of tools by name, in the given order.

    Args:
        tools: functions, `tool_of(…)` or `ToolDef` values. In a mapping, the key is the name: a function gets it, a
            tool must already have it.

    Raises:
        InputError: a name is invalid or used twice, or something is not a tool.
    """

    def __init__(self, tools: GivenTools = ()) -> None:
        self._tools = _by_name(tools)
        self.specs: tuple[ToolSpec, ...] = tuple(tool.spec for tool in self._tools.values())
        self.functions: tuple[JsonObject, ...] = tuple(spec.function for spec in self.specs)

    @classmethod
    def of(cls, *given: GivenTool | GivenTools) -> Toolbox:
        """Return a toolbox of tools and collections of tools. Of two tools with one name, the later is taken."""
        named: dict[str, ToolDef] = {}
        for each in given:
            named |= Toolbox([each] if callable(each) or isinstance(each, ToolDef) else each)
        return Toolbox(list(named.values()))

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
            raise InputError(
                f"the tool is named {given.name}", source="tools", place=name, hint="use its name as the key"
            )
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
        f"{name!r} is not a valid tool name",
        source="tools",
        hint="use letters, digits, _ and -, 64 at most; tool_of(function, name=…) sets another name",
    )
