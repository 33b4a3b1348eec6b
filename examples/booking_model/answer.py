"""A model that plays the agent, the customers and the judge by rules."""

from booking_model.agent import agent_line
from booking_model.customer import customer_line
from booking_model.judge import judge_line
from offbook.messages import Request, Response, ToolCall, Usage


def answer(request: Request) -> Response:
    """Answer in the role that the system prompt assigns."""
    line = _line(request)
    prompt_tokens = sum(len(str(message["content"]).split()) for message in request.messages)
    if isinstance(line, str):
        return Response(line, model=request.model, usage=Usage.of(prompt_tokens, len(line.split())))
    usage = Usage.of(prompt_tokens, 5)
    return Response(model=request.model, usage=usage, finish_reason="tool_calls", tool_calls=(line,))


def _line(request: Request) -> str | ToolCall:
    instructions, case = str(request.messages[0]["content"]), str(request.messages[-1]["content"])
    if instructions.startswith("You play a user"):
        return customer_line(instructions, case)
    if instructions.startswith("You judge a conversation"):
        return judge_line(instructions, case)
    return agent_line(instructions, request.messages[1:])
