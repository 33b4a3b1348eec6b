"""Calls every tool of a server twice with the client of `mcp` 2, on its own connection, and prints the outcomes."""

import asyncio
import json
import sys

from mcp.client.stdio import StdioServerParameters, stdio_client

from mcp import Client


def target(entry):
    if "url" in entry:
        return entry["url"]
    return stdio_client(StdioServerParameters(command=entry["command"], args=entry["args"], env=entry["env"]))


def describe(error):
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return ": ".join(filter(None, [type(error).__name__, str(error).partition("\n")[0].partition(" for ")[0]]))


async def outcome(client, tool):
    try:
        result = await client.call_tool(tool, {})
    except Exception as error:
        return describe(error)
    return "a result with `isError`" if result.is_error else "a result"


async def use(entry, tool):
    said = []
    try:
        async with Client(target(entry), read_timeout_seconds=2) as client:
            said += [await outcome(client, tool)]
            said += [await outcome(client, tool)]
    except BaseException as error:
        said += [] if said else [describe(error)]
    first = said[0]
    return first if first == "a result" else f"{first}; then {said[1] if len(said) > 1 else 'the client has ended'}"


async def main(path, *tools):
    with open(path) as file:  # noqa: ASYNC230, PTH123 - nothing else runs
        (entry,) = json.load(file)["mcpServers"].values()
    sys.stdout.write(json.dumps({tool: await use(entry, tool) for tool in tools}))


asyncio.run(main(*sys.argv[1:]))
