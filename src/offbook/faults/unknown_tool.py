"""The fault of a model that asks for a tool that nobody gave it."""

from offbook.faults.asked_tool import asking_for
from offbook.faults.fault import Fault, StruckCall
from offbook.messages import Reply, ToolCall


class UnknownTool(Fault, frozen=True, tag="unknown_tool"):
    """The model asks for a tool named `no_such_tool`."""

    async def strike(self, call: StruckCall) -> Reply:
        return asking_for(ToolCall("no_such_tool"), call)
