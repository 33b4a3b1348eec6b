"""A tool of our own loops that a mock answers for."""

from __future__ import annotations

from offbook.messages import JsonObject
from offbook.tools import ToolDef


class MockedTool(ToolDef, frozen=True):
    """A tool that takes arguments as the model gave them: whether they fit is judged when they are answered."""

    def bind(self, args: JsonObject) -> JsonObject:
        return args
