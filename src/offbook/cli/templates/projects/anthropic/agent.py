"""A support agent on the Anthropic SDK: it answers customers, and refunds orders."""

import sys
from typing import Any

import anthropic

MODEL = "claude-haiku-4-5"
SYSTEM = "You answer customers of a shop. Refund orders that never came."
TOOLS: Any = [
    {
        "name": "refund",
        "description": "Pay an order back.",
        "input_schema": {"type": "object", "properties": {"order": {"type": "integer"}}, "required": ["order"]},
    }
]


def refund(order: int) -> str:
    """Pay an order back. Here it only says so."""
    return f"order {order} is refunded"


def answer(question: str, client: anthropic.Anthropic) -> str:
    """Ask the model, and run the tools that it asks for, until it answers."""
    messages: list[Any] = [{"role": "user", "content": question}]
    for _ in range(5):
        reply = client.messages.create(model=MODEL, max_tokens=500, system=SYSTEM, messages=messages, tools=TOOLS)
        calls = [block for block in reply.content if block.type == "tool_use"]
        if not calls:
            return "".join(block.text for block in reply.content if block.type == "text")
        messages.append({"role": "assistant", "content": [block.model_dump() for block in reply.content]})
        results = [{"type": "tool_result", "tool_use_id": call.id, "content": refund(**call.input)} for call in calls]
        messages.append({"role": "user", "content": results})
    raise RuntimeError("no answer after five turns")


if __name__ == "__main__":
    print(answer(" ".join(sys.argv[1:]) or "Order 42 never came.", anthropic.Anthropic(timeout=10)))
