"""The fault of a tool that gives nothing."""

from offbook.faults.tool_fault import ToolFault


class ToolEmpty(ToolFault, frozen=True, tag="tool_empty"):
    """Runs the tool, and gives None instead of what it returns."""

    def outcome(self, tool: str) -> None:
        return None
