"""A tool put in the place of another."""

from __future__ import annotations

from typing import Any

from offbook.messages import JsonObject
from offbook.tools.definition import ToolDef, ToolFunction


class WrappedTool(ToolDef, frozen=True, kw_only=True):
    """A tool that takes the arguments of `original`, checked as there, and hands them on as the model gave them."""

    original: ToolDef

    def bind(self, args: JsonObject) -> JsonObject:
        self.original.bind(args)
        return args

    def __call__(self, **arguments: Any) -> Any:
        return self.callable(**arguments)


def wrapped(tool: ToolDef, function: ToolFunction, *, timeout_s: float | None) -> WrappedTool:
    """The tool with another callable in the place of its own."""
    return WrappedTool(
        tool.spec, function, tool.prerequisites, timeout_s, tool.side_effect, tool.repeatable, original=tool
    )
