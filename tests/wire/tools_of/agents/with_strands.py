"""An agent of Strands Agents."""

import os

from shop import QUESTION, finish, look_up, refund
from strands import Agent, tool
from strands.models.openai import OpenAIModel

model = OpenAIModel(client_args={"base_url": os.environ["OPENAI_BASE_URL"]}, model_id="gpt-5")
agent = Agent(model=model, tools=[tool(look_up), tool(refund)], callback_handler=None)
finish(agent(QUESTION).message["content"][0]["text"])
