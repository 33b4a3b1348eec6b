"""The tools, the first messages and the error of both refund agents."""

from offbook.messages import JsonObject
from offbook.tools import Toolbox, tool

MODEL = "gpt-4o-mini"
OPENING: list[JsonObject] = [
    {"role": "system", "content": "You refund orders that were lost. Look an order up first."},
    {"role": "user", "content": "Order 42 never came."},
]


class GaveUpError(Exception):
    """The declared error of agents that cannot answer the customer."""


@tool(read_only=True)
async def find_order(order_id: int) -> JsonObject:
    """Look up an order."""
    return {"order_id": order_id, "status": "lost", "total": 30}


@tool(side_effect=True)
async def refund(order_id: int) -> JsonObject:
    """Give the customer the money back."""
    return {"order_id": order_id, "refunded": 30}


TOOLS = Toolbox([find_order, refund])


def describe_result(result: JsonObject) -> str:
    """Format the result of a tool for the model."""
    return ", ".join(f"{name}: {value}" for name, value in result.items())
