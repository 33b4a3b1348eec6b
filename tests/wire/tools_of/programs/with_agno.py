"""Tools of Agno, called by an agent, in turn and at once."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

from agno.agent import Agent
from agno.models.base import Model
from agno.models.response import ModelResponse
from agno.run import RunContext
from agno.tools import Toolkit, tool
from ledger import finish, ran
from pydantic import BaseModel


class Receipt(BaseModel):
    order: int


def refund(order: int, note: str = "") -> str:
    """Refund an order."""
    ran("refund", order=order, note=note)
    return f"refunded {order}"


@tool(name="look")
async def look_up(run_context: RunContext, order: int) -> dict[str, Any]:
    """Look up an order."""
    ran("look", order=order)
    return {"order": order}


@tool
def fail(order: int) -> str:
    """Fail."""
    ran("fail", order=order)
    raise LookupError(f"no order {order}")


class Till(Toolkit):
    def __init__(self) -> None:
        super().__init__(name="till", tools=[self.count], async_tools=[(self.close, "close")])

    def count(self, since: str, agent: Agent) -> Receipt:
        """Count sales."""
        ran("count", since=since)
        return Receipt(order=len(since))

    async def close(self, day: str) -> str:
        """Close."""
        ran("close", day=day)
        return f"closed on {day}"


class Scripted(Model):
    """Calls tools, then ends."""

    calls: list[tuple[str, dict[str, Any]]]

    def __init__(self, *calls: tuple[str, dict[str, Any]]) -> None:
        super().__init__(id="scripted")
        self.calls = list(calls)

    def invoke(self, *_: Any, **__: Any) -> ModelResponse:
        calls, self.calls = self.calls, []
        functions = [{"name": name, "arguments": json.dumps(arguments)} for name, arguments in calls]
        tool_calls = [{"id": each["name"], "type": "function", "function": each} for each in functions]
        return ModelResponse(role="assistant", content=None if calls else "done", tool_calls=tool_calls)

    async def ainvoke(self, *_: Any, **__: Any) -> ModelResponse:
        return self.invoke()

    def invoke_stream(self, *_: Any, **__: Any) -> Iterator[ModelResponse]:
        raise NotImplementedError

    def ainvoke_stream(self, *_: Any, **__: Any) -> AsyncIterator[ModelResponse]:
        raise NotImplementedError

    def _parse_provider_response(self, response: Any, **_: Any) -> ModelResponse:
        raise NotImplementedError

    def _parse_provider_response_delta(self, response: Any) -> ModelResponse:
        raise NotImplementedError


def clerk(tools: list[Any], *calls: tuple[str, dict[str, Any]]) -> Agent:
    return Agent(model=Scripted(*calls), tools=tools, telemetry=False)


def told(run: Any) -> list[Any]:
    return [
        [message.tool_name, message.content, message.tool_call_error]
        for message in run.messages
        if message.role == "tool"
    ]


calls = [("refund", {"order": 1}), ("fail", {"order": 3}), ("count", {"since": "May"})]
results = told(clerk([refund, fail, Till()], *calls).run("help"))
calls = [("look", {"order": 2}), ("close", {"day": "Monday"}), ("refund", {"order": 4})]
finish([*results, *told(asyncio.run(clerk([refund, look_up, Till()], *calls).arun("help")))])
