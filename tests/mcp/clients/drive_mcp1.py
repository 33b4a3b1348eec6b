"""Uses every server of a config with the client of `mcp` 1, and prints what it got."""

import asyncio
import json
import sys
from contextlib import AsyncExitStack

from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client

from mcp import ClientSession, StdioServerParameters


def transport(entry):
    if "url" in entry:
        return streamablehttp_client(entry["url"])
    return stdio_client(StdioServerParameters(command=entry["command"], args=entry["args"], env=entry["env"]))


async def use(entry):
    seen = []

    async def progress(done, total, message):
        seen.append(done)

    async with AsyncExitStack() as stack:
        read, write, *_ = await stack.enter_async_context(transport(entry))
        client = await stack.enter_async_context(ClientSession(read, write))
        await client.initialize()
        await client.send_ping()
        return {
            "tools": [tool.name for tool in (await client.list_tools()).tools],
            "add": (await client.call_tool("add", {"a": 1, "b": 2})).structuredContent,
            "count": (await client.call_tool("count", {"n": 2}, progress_callback=progress)).content[0].text,
            "progress": seen,
            "fail": (await client.call_tool("fail", {})).isError,
            "resource": (await client.read_resource("note://one")).contents[0].text,
            "prompt": (await client.get_prompt("greet", {"name": "Bo"})).messages[0].content.text,
        }


async def main(path):
    with open(path) as file:  # noqa: ASYNC230, PTH123 - nothing else runs
        servers = json.load(file)["mcpServers"]
    sys.stdout.write(json.dumps({name: await use(entry) for name, entry in servers.items()}))


asyncio.run(main(sys.argv[1]))
