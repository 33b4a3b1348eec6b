"""Tools of CrewAI, called by a crew, and by what runs a crew in asyncio."""

import asyncio
import json
from typing import Any

from crewai import Agent, BaseLLM, Crew, Task
from crewai.tools import BaseTool, tool
from ledger import finish, ran


@tool("Refund an order")
def refund(order: int, note: str = "") -> dict[str, Any]:
    """Refund an order."""
    ran("refund_an_order", order=order, note=note)
    return {"refunded": order}


@tool
async def look_up(order: int) -> str:
    """Look up an order."""
    ran("look_up", order=order)
    return f"order {order}"


@tool
def fail(order: int) -> str:
    """Fail."""
    ran("fail", order=order)
    raise LookupError(f"no order {order}")


class Count(BaseTool):
    name: str = "Count sales"
    description: str = "Count sales."

    def _run(self, since: str) -> int:
        ran("count_sales", since=since)
        return len(since)

    async def _arun(self, since: str) -> int:
        return self._run(since)


CALLS = [
    ("refund_an_order", {"order": 1}),
    ("look_up", {"order": 2}),
    ("fail", {"order": 3}),
    ("count_sales", {"since": "May"}),
]


class Scripted(BaseLLM):
    """Calls each tool once, then ends."""

    calls: list[Any] = []
    told: list[str] = []

    def supports_function_calling(self) -> bool:
        return False

    def call(self, messages: Any, *_: Any, **__: Any) -> str:
        self.told.append(messages[-1]["content"])
        if not self.calls:
            return "Thought: I now know the final answer\nFinal Answer: done"
        name, arguments = self.calls.pop(0)
        return f"Thought: go\nAction: {name}\nAction Input: {json.dumps(arguments)}\n"


def told(model: Scripted) -> list[str]:
    return [text[text.rfind("Observation:"):] for text in model.told[1:]]


def crew(model: Scripted) -> Crew:
    clerk = Agent(role="clerk", goal="help", backstory="none", tools=[refund, look_up, fail, Count()], llm=model)
    return Crew(agents=[clerk], tasks=[Task(description="help", expected_output="done", agent=clerk)])


model = Scripted(model="scripted", calls=list(CALLS))
crew(model).kickoff()
other = Scripted(model="scripted", calls=[("refund_an_order", {"order": 4})])
asyncio.run(crew(other).akickoff())
finish([told(model), told(other), asyncio.run(Count().arun(since="June")), asyncio.run(look_up.arun(order=5))])
