"""Tools put in the place of others."""

from __future__ import annotations

from abc import abstractmethod
from types import TracebackType
from typing import Any, Self

from understudy.messages import JsonObject
from understudy.tools.definition import ToolDef, ToolFunction
from understudy.tools.toolbox import Toolbox


class WrappedTool(ToolDef, frozen=True, kw_only=True):
    """A tool that takes the arguments of `original`, checked as there, and hands them on as the model gave them."""

    original: ToolDef

    def bind(self, args: JsonObject) -> JsonObject:
        self.original.bind(args)
        return args

    def __call__(self, **arguments: Any) -> Any:
        return self.callable(**arguments)


class OpenToolbox(Toolbox):
    """A toolbox that holds a recording open, to be used as a context manager or closed."""

    @abstractmethod
    def wrap(self, tool: ToolDef) -> ToolDef:
        """A further tool, put in place like the others; its calls count with theirs."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the recording. Safe to call twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.close()


def wrapped(tool: ToolDef, function: ToolFunction, *, timeout_s: float | None) -> WrappedTool:
    """The tool with another callable in the place of its own."""
    return WrappedTool(
        tool.spec, function, tool.prerequisites, timeout_s, tool.side_effect, tool.repeatable, original=tool
    )
