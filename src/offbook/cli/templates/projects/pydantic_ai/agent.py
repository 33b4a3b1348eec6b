"""A support agent with pydantic-ai: it answers customers, and refunds orders."""

import sys

from openai import AsyncOpenAI
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

SYSTEM = "You answer customers of a shop. Refund orders that never came."


def refund(order: int) -> str:
    """Pay an order back."""
    return f"order {order} is refunded"  # here it only says so


async def answer(question: str, client: AsyncOpenAI) -> str:
    """Run the agent until it answers."""
    model = OpenAIChatModel("gpt-4o-mini", provider=OpenAIProvider(openai_client=client))
    agent = Agent(model, system_prompt=SYSTEM, tools=[refund])
    return (await agent.run(question)).output


if __name__ == "__main__":
    import asyncio

    asked = " ".join(sys.argv[1:]) or "Order 42 never came."
    print(asyncio.run(answer(asked, AsyncOpenAI(timeout=10))))
