"""Uses a stand-in by the streams of `mcp` 1 or 2, recorded and replayed in virtual time, and prints what it got."""

import asyncio
import json
import sys
from pathlib import Path

import offbook
from mcp import ClientSession
from offbook.clock import run


async def use(server):
    async with server.mcp["real"].streams() as (read, write), ClientSession(read, write) as client:
        await client.initialize()
        names = [tool.name for tool in (await client.list_tools()).tools]
        added = (await client.call_tool("add", {"a": 1, "b": 2})).content[0].text
        return {"tools": names, "add": added}


async def wait(server):
    async with server.mcp["real"].streams() as (read, write), ClientSession(read, write) as client:
        await client.initialize()
        try:
            await asyncio.wait_for(client.call_tool("add", {"a": 1, "b": 2}), 3600)
        except TimeoutError:
            return "late"


def main(python, folder):
    script = str(Path(__file__).with_name("server.py"))
    command = {"command": python, "args": [script], "env": {"PYTHONPATH": ""}}
    path = f"{folder}/run.json"
    with offbook.serving(record=path, mcp={"real": command}) as server:
        recorded = run(use(server))
    with offbook.serving(path, mcp={"real": {"command": "none"}}) as server:
        replayed = run(use(server), virtual_time=True)
    with offbook.serving(path, mcp={"real": command}, faults=["tool=real.add: tool_timeout"]) as server:
        late = run(wait(server), virtual_time=True)
    sys.stdout.write(json.dumps([recorded, replayed, late]))


main(*sys.argv[1:])
