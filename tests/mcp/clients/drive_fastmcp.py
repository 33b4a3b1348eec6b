"""Uses every server of a config with the client of `fastmcp`, which reads configs itself, and prints what it got."""

import asyncio
import json
import sys

from fastmcp import Client


async def use(name, entry):
    seen = []

    async def progress(done, total, message):
        seen.append(done)

    async with Client({"mcpServers": {name: entry}}) as client:
        return {
            "tools": [tool.name for tool in await client.list_tools()],
            "add": (await client.call_tool("add", {"a": 1, "b": 2})).structured_content,
            "count": (await client.call_tool("count", {"n": 2}, progress_handler=progress)).content[0].text,
            "progress": seen,
            "fail": (await client.call_tool("fail", {}, raise_on_error=False)).is_error,
            "resource": (await client.read_resource("note://one"))[0].text,
            "prompt": (await client.get_prompt("greet", {"name": "Bo"})).messages[0].content.text,
        }


async def main(path):
    with open(path) as file:  # noqa: ASYNC230, PTH123 - nothing else runs
        servers = json.load(file)["mcpServers"]
    sys.stdout.write(json.dumps({name: await use(name, entry) for name, entry in servers.items()}))


asyncio.run(main(sys.argv[1]))
