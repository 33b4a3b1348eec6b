"""A loop whose tools are those of a server in the same process: mcp 2."""

import asyncio
import json
from typing import Any

from mcp.server.mcpserver import MCPServer
from shop import QUESTION, ask, finish, look_up, refund

from mcp import Client

server = MCPServer("shop")
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
