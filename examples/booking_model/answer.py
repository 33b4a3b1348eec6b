"""What the model says: by rule, it plays the agent, its customers and their judge."""

from booking_model.agent import agent_line
from booking_model.customer import customer_line
from booking_model.judge import judge_line
from offbook.messages import Request, Response, ToolCall, Usage


def answer(request: Request) -> Response:
    """What the model says, in the part that its instructions give it."""
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
