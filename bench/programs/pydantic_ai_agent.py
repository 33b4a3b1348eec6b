"""An agent with pydantic-ai."""

import sys

from openai import AsyncOpenAI
from pydantic_ai import Agent, UsageLimits
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

client = AsyncOpenAI(timeout=10.0, max_retries=2)
agent = Agent(OpenAIChatModel("gpt-4o", provider=OpenAIProvider(openai_client=client)))


@agent.tool_plain
def find(order: int) -> str:
    """Find an order."""
    return "nothing"


print(agent.run_sync("Where is order 42?", usage_limits=UsageLimits(request_limit=int(sys.argv[1]))).output)
