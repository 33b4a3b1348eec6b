"""The fault of a tool whose result arrives as nonsense."""

from offbook.faults.tool_fault import ToolFault


class ToolGarbled(ToolFault, frozen=True, tag="tool_garbled"):
    """Runs the tool, and gives `result` instead of what it returns: by default, JSON that breaks off."""

    result: str = '{"status": "ok", "resu'

    def outcome(self, tool: str) -> str:
        return self.result
