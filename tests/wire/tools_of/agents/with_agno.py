"""An agent of agno."""

import os

os.environ["AGNO_TELEMETRY"] = "false"

from agno.agent import Agent
from agno.models.openai import OpenAIChat
from shop import QUESTION, finish, look_up, refund

agent = Agent(model=OpenAIChat(id="gpt-5", base_url=os.environ["OPENAI_BASE_URL"]), tools=[look_up, refund])
finish(agent.run(QUESTION).content)
