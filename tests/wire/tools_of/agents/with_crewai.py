"""A crew of CrewAI."""

import os

os.environ |= {"CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true", "CREWAI_TRACING_ENABLED": "false"}

from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool
from shop import QUESTION, finish, look_up, refund

agent = Agent(
    role="clerk",
    goal="help",
    backstory="none",
    tools=[tool("look_up")(look_up), tool("refund")(refund)],
    llm=LLM(model="openai/gpt-4o", base_url=os.environ["OPENAI_BASE_URL"]),
)
task = Task(description=QUESTION, expected_output="an answer", agent=agent)
finish(Crew(agents=[agent], tasks=[task], verbose=False).kickoff().raw)
