"""A reply in which the model asks for one tool."""

from msgspec.structs import replace

from offbook.faults.fault import StruckCall
from offbook.messages import Reply, Response, ToolCall, WholeReply


def asking_for(tool_call: ToolCall, call: StruckCall) -> Reply:
    """The reply to `call` that is nothing but `tool_call`, under an id that grows with the conversation."""
    request = call.request
    numbered = replace(tool_call, id=f"call_fault_{len(request.messages)}")
    return WholeReply(
        Response(model=request.model, provider=call.provider, finish_reason="tool_calls", tool_calls=(numbered,))
    )
