"""An agent of the OpenAI Agents SDK."""

from agents import Agent, Runner, function_tool, set_default_openai_api, set_tracing_disabled
from shop import QUESTION, finish, look_up, refund

set_tracing_disabled(True)
set_default_openai_api("chat_completions")
agent = Agent(name="clerk", model="gpt-5", tools=[function_tool(look_up), function_tool(refund)])
finish(Runner.run_sync(agent, QUESTION).final_output)
