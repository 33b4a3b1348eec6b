"""A client of our own server: lists the runs of a folder, reads one, and has it explored and explained."""

import asyncio
import json
import sys

from mcp.client.stdio import stdio_client

from mcp import ClientSession, StdioServerParameters


async def main(offbook: str, folder: str) -> None:
    server = StdioServerParameters(command=offbook, args=["mcp-server", folder, "--allow-explore"])
    async with stdio_client(server) as (reading, writing), ClientSession(reading, writing) as session:
        await session.initialize()

        async def call(name: str, **arguments: object) -> dict:
            answer = await session.call_tool(name, arguments)
            return json.loads(answer.content[0].text)

        listed = await session.list_tools()
        (run,) = (await call("list_runs", search="recording"))["runs"]
        shown = await call("show_recording", run=run["id"])
        explored = await call(
            "explore", recording=run["id"], command=[sys.argv[3], "agent.py"], faults="empty_response"
        )
        explained = await call("explain_finding", run=explored["run"], finding=1)
        seen = {
            "tools": [tool.name for tool in listed.tools],
            "run": run["id"],
            "asked": shown["calls"][0]["answer"]["calls"],
            "findings": len(explored["findings"]) > 0,
            "reproduce": explained["reproduce"],
        }
        sys.stdout.write(json.dumps(seen))


asyncio.run(main(sys.argv[1], sys.argv[2]))
