"""Tools of the Claude Agent SDK, called as Claude Code calls them: by MCP, over a transport in memory."""

import asyncio
from typing import Any

from claude_agent_sdk import create_sdk_mcp_server, tool
from ledger import finish, ran

from mcp import Client


@tool("refund", "Refund an order.", {"order": int, "note": str})
async def refund(args: dict[str, Any]) -> dict[str, Any]:
    ran("refund", **args)
    return {"content": [{"type": "text", "text": f"refunded {args['order']}"}]}


@tool("look", "Look up an order.", {"order": int})
async def look_up(arguments: dict[str, Any]) -> dict[str, Any]:
    ran("look", **arguments)
    return {"content": [{"type": "text", "text": "unknown"}], "is_error": True}


@tool("fail", "Fail.", {"order": int})
async def fail(args: dict[str, Any]) -> dict[str, Any]:
    ran("fail", **args)
    raise LookupError(f"no order {args['order']}")


class Till:
    async def count(self, args: dict[str, Any]) -> dict[str, Any]:
        ran("count", **args)
        return {"content": [{"type": "text", "text": args["since"]}]}


async def main() -> None:
    tools = [refund, look_up, fail, tool("count", "Count.", {"since": str})(Till().count)]
    async with Client(create_sdk_mcp_server("shop", tools=tools)["instance"]) as client:
        calls = [
            ("refund", {"order": 1, "note": "late"}),
            ("look", {"order": 2}),
            ("fail", {"order": 3}),
            ("count", {"since": "May"}),
        ]
        results = await asyncio.gather(*(client.call_tool(name, arguments) for name, arguments in calls))
        finish([each.model_dump(mode="json") for each in results])


asyncio.run(main())
