"""An agent of AutoGen."""

import asyncio
import os

from autogen_agentchat.agents import AssistantAgent
from autogen_ext.models.openai import OpenAIChatCompletionClient
from shop import QUESTION, finish, look_up, refund


async def main() -> None:
    client = OpenAIChatCompletionClient(model="gpt-4o", base_url=os.environ["OPENAI_BASE_URL"])
    agent = AssistantAgent("clerk", client, tools=[look_up, refund], max_tool_iterations=5)
    finish((await agent.run(task=QUESTION)).messages[-1].content)


asyncio.run(main())
