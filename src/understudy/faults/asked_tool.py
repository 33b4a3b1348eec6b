"""A response in which the model asks for one tool."""

from understudy.faults.fault import StruckCall
from understudy.messages import Response, ToolCall


def asking_for(tool_call: ToolCall, call: StruckCall) -> Response:
    """The answer to `call` that is nothing but `tool_call`."""
    return Response(
        model=call.request.model, provider=call.provider, finish_reason="tool_calls", tool_calls=(tool_call,)
    )
