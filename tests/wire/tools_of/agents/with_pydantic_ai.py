"""An agent of pydantic-ai."""

from pydantic_ai import Agent
from shop import QUESTION, finish, look_up, refund

finish(Agent("openai-chat:gpt-5", tools=[look_up, refund]).run_sync(QUESTION).output)
