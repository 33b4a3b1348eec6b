"""Uses every server of a config with the client of `mcp` 2, in the mode that is named, and prints what it got."""

import asyncio
import json
import sys

from mcp.client.stdio import StdioServerParameters, stdio_client

from mcp import Client


def target(entry):
    if "url" in entry:
        return entry["url"]
    return stdio_client(StdioServerParameters(command=entry["command"], args=entry["args"], env=entry["env"]))


async def use(entry, mode):
    seen = []

    async def progress(done, total, message):
        seen.append(done)

    async with Client(target(entry), mode=mode) as client:
        return {
            "tools": [tool.name for tool in (await client.list_tools()).tools],
            "add": (await client.call_tool("add", {"a": 1, "b": 2})).structured_content,
            "count": (await client.call_tool("count", {"n": 2}, progress_callback=progress)).content[0].text,
            "progress": seen,
            "fail": (await client.call_tool("fail", {})).is_error,
            "resource": (await client.read_resource("note://one")).contents[0].text,
            "prompt": (await client.get_prompt("greet", {"name": "Bo"})).messages[0].content.text,
        }


async def main(path, mode):
    with open(path) as file:  # noqa: ASYNC230, PTH123 - nothing else runs
        servers = json.load(file)["mcpServers"]
    sys.stdout.write(json.dumps({name: await use(entry, mode) for name, entry in servers.items()}))


asyncio.run(main(*sys.argv[1:]))
