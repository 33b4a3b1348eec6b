"""The fault of a tool that fails before it has done anything."""

from typing import ClassVar, NoReturn

from offbook.errors import ToolFaultError
from offbook.faults.tool_fault import ToolFault


class ToolError(ToolFault, frozen=True, tag="tool_error"):
    """Raises a ToolFaultError: `error`. The tool does not run."""

    runs_tool: ClassVar[bool] = False

    error: str = "the tool failed"

    def outcome(self, tool: str) -> NoReturn:
        raise ToolFaultError(self.error, tool=tool)
