"""An agent of Haystack."""

import os

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"

from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.tools import create_tool_from_function
from shop import QUESTION, finish, look_up, refund

model = OpenAIChatGenerator(model="gpt-5", api_base_url=os.environ["OPENAI_BASE_URL"])
agent = Agent(chat_generator=model, tools=[create_tool_from_function(look_up), create_tool_from_function(refund)])
finish(agent.run(messages=[ChatMessage.from_user(QUESTION)])["messages"][-1].text)
