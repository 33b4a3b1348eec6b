"""Tools of CrewAI, called by a crew, and by what runs a crew in asyncio."""

import asyncio
import json
from typing import Any

from crewai import Agent, BaseLLM, Crew, Task
from crewai.tools import BaseTool, tool
from ledger import finish, ran
from pydantic import Field


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
    """Calls tools, then ends: one after the other in its text, or all at once if it can call functions."""

    calls: list[Any]
    is_native: bool = False
    told: list[str] = Field(default_factory=list)

    def supports_function_calling(self) -> bool:
        return self.is_native

    def call(self, messages: Any, *_: Any, **__: Any) -> Any:
        self.told.append(json.dumps(messages))
        if not self.calls:
            return "Thought: I now know the final answer\nFinal Answer: done"
        if not self.is_native:
            name, arguments = self.calls.pop(0)
            return f"Thought: go\nAction: {name}\nAction Input: {json.dumps(arguments)}\n"
        calls, self.calls = self.calls, []
        functions = [{"name": name, "arguments": json.dumps(arguments)} for name, arguments in calls]
        return [{"id": each["name"], "type": "function", "function": each} for each in functions]

    async def acall(self, messages: Any, *_: Any, **__: Any) -> Any:
        return self.call(messages)


def crew(model: Scripted) -> Crew:
    clerk = Agent(role="clerk", goal="help", backstory="none", tools=[refund, look_up, fail, Count()], llm=model)
    return Crew(agents=[clerk], tasks=[Task(description="help", expected_output="done", agent=clerk)])


model = Scripted(model="scripted", calls=list(CALLS))
crew(model).kickoff()
native = Scripted(model="scripted", calls=list(CALLS), is_native=True)
asyncio.run(crew(native).akickoff())
finish([model.told[-1], native.told[-1], asyncio.run(Count().arun(since="June")), asyncio.run(look_up.arun(order=5))])
