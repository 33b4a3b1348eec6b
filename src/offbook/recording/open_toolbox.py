"""Tools that belong to a recording."""

from __future__ import annotations

from abc import abstractmethod
from types import TracebackType
from typing import Self

from offbook.tools.definition import ToolDef
from offbook.tools.toolbox import Toolbox


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
