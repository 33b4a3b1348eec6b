"""The fault of a model that writes tool arguments that are no JSON."""

from offbook.faults.asked_tool import asking_for
from offbook.faults.fault import Fault, StruckCall
from offbook.messages import Reply, ToolCall


class InvalidToolArgs(Fault, frozen=True, tag="invalid_tool_args"):
    """The model asks for the first tool it was given, with arguments that break off."""

    async def strike(self, call: StruckCall) -> Reply:
        tools = call.request.tools
        name = str(tools[0].get("function", {}).get("name", "tool")) if tools else "tool"
        return asking_for(ToolCall(name, raw_arguments='{"value": "brok'), call)
