"""pydantic-ai: `with_pydantic_ai.py AGENT defect|sound`."""

import asyncio
import sys

from openai import AsyncOpenAI
from policies import POLICIES
from pydantic_ai import Agent, UsageLimits
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.toolsets import FunctionToolset, WrapperToolset
from shop import PATIENCE_S, end

from tools import tools_of

AGENT, TWIN = sys.argv[1:]
POLICY = POLICIES[AGENT](sound=TWIN == "sound")
CLIENT = AsyncOpenAI(max_retries=1, timeout=PATIENCE_S)


class Policed(WrapperToolset):
    async def call_tool(self, name, tool_args, ctx, tool):
        return await POLICY(name, tool_args, lambda: self.wrapped.call_tool(name, tool_args, ctx, tool))


async def serve():
    model = OpenAIChatModel("gpt-4o", provider=OpenAIProvider(openai_client=CLIENT))
    agent = Agent(model, toolsets=[Policed(FunctionToolset(tools_of(AGENT, TWIN)))])
    for attempt in range(3 if POLICY.starts_over else 1):
        await asyncio.sleep(attempt)
        try:
            ended = await agent.run("Order 7 never came.", usage_limits=UsageLimits(request_limit=6))
            return POLICY.finish(ended.output)
        except Exception as error:
            failed = error
    raise failed


if __name__ == "__main__":
    end(lambda: asyncio.run(serve()))
