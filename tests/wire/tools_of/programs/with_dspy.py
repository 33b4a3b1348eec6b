"""Tools of DSPy, called by ReAct, sync and async."""

import asyncio
from typing import Any

import dspy
from dspy.utils import DummyLM
from ledger import finish, ran


def refund(order: int, note: str = "") -> dict[str, Any]:
    """Refund an order."""
    ran("refund", order=order)
    return {"refunded": order}


async def look_up(order: int) -> str:
    """Look up an order."""
    ran("look", order=order)
    return f"order {order}"


def fail(order: int) -> str:
    """Fail."""
    ran("fail", order=order)
    raise LookupError(f"no order {order}")


class Till:
    def count(self, since: str) -> int:
        """Count sales."""
        ran("count", since=since)
        return len(since)


def clerk() -> dspy.ReAct:
    return dspy.ReAct("question -> answer", tools=[refund, dspy.Tool(look_up, name="look"), fail, Till().count])


def script(*calls: tuple[str, str]) -> DummyLM:
    turns = [{"next_thought": "go", "next_tool_name": name, "next_tool_args": given} for name, given in calls]
    return DummyLM([*turns, {"reasoning": "so", "answer": "done"}])


def told(prediction: dspy.Prediction) -> list[str]:
    return [str(text) for key, text in prediction.trajectory.items() if key.startswith("observation")]


first = script(("refund", '{"order": 1}'), ("count", '{"since": "May"}'), ("fail", '{"order": 3}'), ("finish", "{}"))
with dspy.context(lm=first):
    results = told(clerk()(question="help"))
with dspy.context(lm=script(("look", '{"order": 2}'), ("refund", '{"order": 4}'), ("finish", "{}"))):
    results += told(asyncio.run(clerk().acall(question="help")))
finish(results)
