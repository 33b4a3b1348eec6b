"""Tools of Strands Agents, called by an agent and directly."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from ledger import finish, ran
from strands import Agent, ToolContext, tool
from strands.models import Model
from strands.tools import PythonAgentTool


@tool
def refund(order: int, note: str = "") -> dict[str, Any]:
    """Refund an order."""
    ran("refund", order=order, note=note)
    return {"refunded": order}


@tool(name="look", context=True)
async def look_up(order: int, tool_context: ToolContext) -> str:
    """Look up an order."""
    ran("look", order=order)
    return f"order {order} of {tool_context.agent.name}"


@tool
def fail(order: int) -> str:
    """Fail."""
    ran("fail", order=order)
    raise LookupError(f"no order {order}")


class Till:
    @tool
    def count(self, since: str) -> int:
        """Count sales."""
        ran("count", since=since)
        return len(since)


def close(tool: dict[str, Any], **_: Any) -> dict[str, Any]:
    ran("close", **tool["input"])
    return {"toolUseId": tool["toolUseId"], "status": "success", "content": [{"text": "closed"}]}


SPEC = {"name": "close", "description": "Close.", "inputSchema": {"json": {"type": "object", "properties": {}}}}
CALLS = [
    ("refund", '{"order": 1}'),
    ("look", '{"order": 2}'),
    ("fail", '{"order": 3}'),
    ("count", '{"since": "May"}'),
    ("close", '{"day": "Monday"}'),
]


class Scripted(Model):
    """Calls each tool once, then ends."""

    def update_config(self, **_: Any) -> None: ...

    def get_config(self) -> dict[str, Any]:
        return {}

    async def structured_output(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        raise NotImplementedError
        yield

    async def stream(self, messages: list[Any], *_: Any, **__: Any) -> AsyncIterator[Any]:
        yield {"messageStart": {"role": "assistant"}}
        for name, arguments in CALLS if len(messages) == 1 else []:
            yield {"contentBlockStart": {"start": {"toolUse": {"name": name, "toolUseId": name}}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": arguments}}}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if len(messages) == 1 else "end_turn"}}


async def main() -> None:
    tools = [refund, look_up, fail, Till().count, PythonAgentTool("close", SPEC, close)]
    agent = Agent(model=Scripted(), tools=tools, callback_handler=None, name="clerk")
    await agent.invoke_async("help")
    results = [
        block["toolResult"] for message in agent.messages for block in message["content"] if "toolResult" in block
    ]
    finish(sorted(results, key=lambda each: each["toolUseId"]))


asyncio.run(main())
