"""The model of the recorded example workflows: it has a line for each of their prompts."""

from typing import TypeAlias

from offbook.messages import Request, Response, ToolCall, Usage

Line: TypeAlias = str | tuple[ToolCall, ...]

LINES: dict[str, Line] = {
    # chain.yaml
    "List three facts about tea": "It comes from China. It likes hot water. It keeps you awake.",
    "Write about these facts": "Tea came from China, likes its water hot, and keeps its friends awake.",
    "Give this paragraph a title": "Hot Water, Long Nights",
    # router.yaml
    "How content is the writer?": '{"stars": 1}',
    "Apologise to the writer": "A new kettle is on its way.",
    "Put a greeting and a signature": "Dear customer,\nA new kettle is on its way.\nYours, Tea & Co.",
    # tool_loop.yaml
    "In which of these cities": (
        ToolCall("get_weather", {"city": "Bergen"}, id="call_1"),
        ToolCall("get_weather", {"city": "Oslo"}, id="call_2"),
    ),
    '"weather":"sun"': "In Bergen, where it rains. In Oslo the sun shines.",
    # fan_out.yaml
    "One reason for": "Sailors are cold.",
    "One reason against": "Sailors drink coffee.",
    "What would this cost?": "A boat and a half.",
    "Weigh these views": "Open it, and sell coffee too.",
    # subworkflow.yaml
    "Translate to German": "Guten Morgen",
    "Translate to French": "Bonjour",
    "Answer yes or no.": "yes",
    "Make a greeting card": "* Good morning * Guten Morgen * Bonjour *",
    # loop.yaml
    "Label ticket 0": "defect",
    "Label ticket 1": "delivery",
    "Improve this slogan: We have tea": "Tea, and time for it",
    "Improve this slogan: Tea, and time for it": "Time is for tea",
    '"score": 10}: Tea, and time for it': '{"score": 6}',
    '"score": 10}: Time is for tea': '{"score": 9}',
    # support.yaml
    "How do I reset my password?": (ToolCall("search_docs", {"query": "reset password"}, id="call_1"),),
    "Choose 'Forgot password'": (
        ToolCall("reply", {"text": "Choose 'Forgot password' and use the link within an hour."}, id="call_2"),
    ),
    # the refund agents of `offbook demo`
    "Order 42 never came": (ToolCall("find_order", {"order_id": 42}, id="call_1"),),
    "status: lost": (ToolCall("refund", {"order_id": 42}, id="call_2"),),
    "refunded: 30": "Order 42 is refunded: you get 30 back.",
    # the project that `offbook init` creates
    "How long do refunds take?": (ToolCall("search_docs", {"query": "refunds"}, id="call_1"),),
    "Refunds are paid": "Refunds are paid within five working days.",
}


def answer(request: Request) -> Response:
    """Answer the last message with its line; a prompt that asks for a classification gets `question`."""
    opening, prompt = str(request.messages[0]["content"]), str(request.messages[-1]["content"])
    line = "question" if opening.startswith("Classify") else _line(prompt)
    prompt_tokens = sum(len(str(message["content"]).split()) for message in request.messages)
    if isinstance(line, str):
        return Response(line, model=request.model, usage=Usage.of(prompt_tokens, len(line.split())))
    usage = Usage.of(prompt_tokens, 5 * len(line))
    return Response(model=request.model, usage=usage, finish_reason="tool_calls", tool_calls=line)


def _line(prompt: str) -> Line:
    return next((line for words, line in LINES.items() if words in prompt), "I do not know.")
