"""The fault of a tool that does its work, and is never heard of again."""

from typing import NoReturn

from offbook.errors import ToolFaultError
from offbook.faults.tool_fault import ToolFault


class ToolLost(ToolFault, frozen=True, tag="tool_lost"):
    """Runs the tool, loses its result, and raises a ToolFaultError: `error`."""

    error: str = "the connection broke, and the result was lost"

    def outcome(self, tool: str) -> NoReturn:
        raise ToolFaultError(self.error, tool=tool)
