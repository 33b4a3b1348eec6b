"""An agent of OpenAI's SDK that uses another as a tool, and hands over to a third."""

import asyncio
import os

import openai
from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from shop import QUESTION, finish, look_up, refund

set_tracing_disabled(disabled=True)
client = openai.AsyncOpenAI(base_url=os.environ["OPENAI_BASE_URL"], max_retries=0)
model = OpenAIChatCompletionsModel("gpt-5", client)
clerk = Agent("clerk", model=model, tools=[function_tool(look_up)])
cashier = Agent("cashier", model=model, tools=[function_tool(refund)])
desk = Agent("desk", model=model, tools=[clerk.as_tool("research", "Looks an order up.")], handoffs=[cashier])
finish(asyncio.run(Runner.run(desk, QUESTION)).final_output)
