"""The fault of a tool that fails when the model asks for it."""

from copy import deepcopy
from typing import Any

from msgspec import field

from offbook.faults.asked_tool import asking_for
from offbook.faults.fault import Fault, StruckCall
from offbook.messages import Reply, ToolCall


class ToolCallFault(Fault, frozen=True, tag="tool_call_fault"):
    """The model asks for `tool` with `args`, and that call's `raise_for_fault()` raises a ToolFaultError: `error`."""

    tool: str
    args: dict[str, Any] = field(default_factory=dict)
    error: str = "the tool failed"

    async def strike(self, call: StruckCall) -> Reply:
        return asking_for(ToolCall(self.tool, deepcopy(self.args), error=self.error), call)
