"""A support agent on the OpenAI SDK: it answers customers, and refunds orders."""

import json
import sys
from typing import Any

import openai

MODEL = "gpt-4o-mini"
SYSTEM = "You answer customers of a shop. Refund orders that never came."
TOOLS: Any = [
    {
        "type": "function",
        "function": {
            "name": "refund",
            "description": "Pay an order back.",
            "parameters": {"type": "object", "properties": {"order": {"type": "integer"}}, "required": ["order"]},
        },
    }
]


def refund(order: int) -> str:
    """Pay an order back. Here it only says so."""
    return f"order {order} is refunded"


def answer(question: str, client: openai.OpenAI) -> str:
    """Ask the model, and run the tools that it asks for, until it answers."""
    messages: list[Any] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]
    for _ in range(5):
        reply = client.chat.completions.create(model=MODEL, messages=messages, tools=TOOLS).choices[0].message
        if not reply.tool_calls:
            return reply.content or ""
        messages.append({"role": "assistant", "tool_calls": [call.model_dump() for call in reply.tool_calls]})
        for call in reply.tool_calls:
            result = refund(**json.loads(call.function.arguments))  # type: ignore[union-attr]
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    raise RuntimeError("no answer after five turns")


if __name__ == "__main__":
    print(answer(" ".join(sys.argv[1:]) or "Order 42 never came.", openai.OpenAI(timeout=10)))
