"""Tools of servers of mcp 1, called by a client of the same process."""

from __future__ import annotations

import asyncio

from ledger import finish, ran
from mcp.server.fastmcp import Context, FastMCP
from mcp.shared.memory import create_connected_server_and_client_session
from pydantic import BaseModel

server = FastMCP("shop")


class Receipt(BaseModel):
    order: int
    note: str = ""


@server.tool()
def refund(order: int, note: str = "") -> Receipt:
    ran("refund", order=order, note=note)
    return Receipt(order=order, note=note)


@server.tool(name="look")
async def look_up(order: int, ctx: Context) -> list[str]:
    ran("look", order=order)
    await ctx.info("looking")
    return [f"order {order}", "paid"]


@server.tool()
def fail(order: int) -> str:
    ran("fail", order=order)
    raise LookupError(f"no order {order}")


class Till:
    async def count(self, since: str) -> int:
        ran("count", since=since)
        return len(since)


server.add_tool(Till().count)


async def main() -> None:
    async with create_connected_server_and_client_session(server._mcp_server) as client:
        calls = [
            ("refund", {"order": 1, "note": "late"}),
            ("look", {"order": 2}),
            ("fail", {"order": 3}),
            ("count", {"since": "May"}),
        ]
        results = await asyncio.gather(*(client.call_tool(name, arguments) for name, arguments in calls))
        finish([each.model_dump(mode="json") for each in results])


asyncio.run(main())
