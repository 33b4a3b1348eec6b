"""A loop whose tools are those of a server in the same process: fastmcp."""

import asyncio
import json
from typing import Any

from fastmcp import Client, FastMCP
from shop import QUESTION, ask, finish, look_up, refund

server = FastMCP("shop")
server.tool()(look_up)
server.tool()(refund)


async def main() -> None:
    messages: list[dict[str, Any]] = [{"role": "user", "content": QUESTION}]
    async with Client(server) as client:
        while calls := (message := await asyncio.to_thread(ask, messages)).get("tool_calls"):
            messages.append(message)
            for call in calls:
                called = call["function"]
                result = await client.call_tool(called["name"], json.loads(called["arguments"]))
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": result.content[0].text})
    finish(message["content"])


asyncio.run(main())
