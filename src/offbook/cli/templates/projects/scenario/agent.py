"""The agent under test: it answers customers of a shop, and refunds orders."""

from typing import Any

MODEL = "gpt-4o-mini"
SYSTEM = {"role": "system", "content": "You answer customers of a shop. Refund orders that never came."}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "refund",
            "description": "Pay an order back.",
            "parameters": {"type": "object", "properties": {"order": {"type": "integer"}}, "required": ["order"]},
        },
    }
]


async def handle(messages: list[dict[str, Any]], ctx: Any) -> Any:
    """Return the model's answer. Mocks answer the tool calls in it, and this is called again with the results."""
    return await ctx.provider.complete([SYSTEM, *messages], model=MODEL, tools=TOOLS)
