"""Tools of Haystack, called by an agent in threads and in tasks."""

import asyncio
from typing import Annotated, Any

from haystack import component
from haystack.components.agents import Agent
from haystack.dataclasses import ChatMessage, ToolCall
from haystack.tools import ComponentTool, Tool, create_tool_from_function, tool
from ledger import finish, ran


@tool
def refund(order: Annotated[int, "its number"], note: str = "") -> dict[str, Any]:
    """Refund an order."""
    ran("refund", order=order)
    return {"refunded": order}


async def look_up(order: int) -> str:
    """Look up an order."""
    ran("look", order=order)
    return f"order {order}"


@tool(inputs_from_state={"shop": "shop"})
def fail(order: int, shop: str) -> str:
    """Fail."""
    ran("fail", order=order)
    raise LookupError(f"no order {order} in {shop}")


@component
class Count:
    """Count sales."""

    @component.output_types(total=int)
    def run(self, since: str) -> dict[str, int]:
        ran("count", since=since)
        return {"total": len(since)}


def close(day: str) -> str:
    ran("close", day=day)
    return f"closed on {day}"


PARAMETERS = {"type": "object", "properties": {"day": {"type": "string"}}}
CALLS = [("refund", {"order": 1}), ("fail", {"order": 3}), ("count", {"since": "May"}), ("close", {"day": "Monday"})]


@component
class Scripted:
    """Calls tools, then ends."""

    def __init__(self, *calls: tuple[str, dict[str, Any]]) -> None:
        self.calls = [ToolCall(tool_name=name, arguments=arguments) for name, arguments in calls]

    def answer(self, messages: list[ChatMessage]) -> dict[str, Any]:
        is_done = any(message.tool_call_results for message in messages)
        return {
            "replies": [
                ChatMessage.from_assistant("done") if is_done else ChatMessage.from_assistant(tool_calls=self.calls)
            ]
        }

    @component.output_types(replies=list[ChatMessage])
    def run(self, messages: list[ChatMessage], tools: Any = None, **_: Any) -> dict[str, Any]:
        return self.answer(messages)

    @component.output_types(replies=list[ChatMessage])
    async def run_async(self, messages: list[ChatMessage], tools: Any = None, **_: Any) -> dict[str, Any]:
        return self.answer(messages)


def told(run: dict[str, Any]) -> list[Any]:
    results = [result for message in run["messages"] for result in message.tool_call_results]
    return sorted([result.origin.tool_name, result.result, result.error] for result in results)


tools = [
    refund,
    fail,
    create_tool_from_function(look_up, name="look"),
    ComponentTool(Count(), name="count"),
    Tool(name="close", description="Close.", parameters=PARAMETERS, function=close),
]
state = {"shop": {"type": str}}
agent = Agent(chat_generator=Scripted(*CALLS), tools=tools, state_schema=state)
again = Agent(
    chat_generator=Scripted(("look", {"order": 2}), ("refund", {"order": 4})), tools=tools, state_schema=state
)
messages = [ChatMessage.from_user("help")]
finish([told(agent.run(messages, shop="north")), told(asyncio.run(again.run_async(messages, shop="north")))])
