"""An agent of smolagents."""

from shop import QUESTION, finish, look_up, refund
from smolagents import OpenAIServerModel, ToolCallingAgent, tool

agent = ToolCallingAgent(tools=[tool(look_up), tool(refund)], model=OpenAIServerModel("gpt-5"), verbosity_level=0)
finish(agent.run(QUESTION))
