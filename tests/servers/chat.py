"""What a server of OpenAI chat completions answers."""

import orjson


def chat_answer(content: str, *, model: str = "demo") -> bytes:
    """The body of a complete answer."""
    message = {"role": "assistant", "content": content}
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return orjson.dumps({"id": "1", "object": "chat.completion", "model": model, "choices": [choice], "usage": usage})
