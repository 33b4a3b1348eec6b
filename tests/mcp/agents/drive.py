"""Runs an agent: once, as a program that reads the config of its MCP servers, or for each run of a list on stdin."""

import asyncio
import json
import os
import sys
from pathlib import Path

IS_ONE_OF_MANY = sys.argv[1] == "--each"
PATIENCE_S = 10.0 if IS_ONE_OF_MANY else 60.0
"""How long a tool call may take; a real server may take long to start."""
QUESTION = "What is 1 + 2?"


def main(answer):
    """Run `answer(path, question)` with the path of a config; or, for `--each`, on stdin, a path and a base URL."""
    if IS_ONE_OF_MANY:
        sys.stdout.write(json.dumps(asyncio.run(outcomes(answer, json.load(sys.stdin)))))
    else:
        sys.stdout.write(asyncio.run(answer(sys.argv[1], QUESTION)))


async def outcomes(answer, runs):
    """What the agent says in each run, or what it raises; on one event loop, since clients are kept between runs."""
    said = []
    for path, url in runs:
        os.environ["OPENAI_BASE_URL"] = url
        (result,) = await asyncio.gather(asyncio.ensure_future(answer(path, QUESTION)), return_exceptions=True)
        said.append({"error": describe(result)} if isinstance(result, BaseException) else {"answer": result})
    return said


def servers_in(path):
    """The servers of a config, by name."""
    return json.loads(Path(path).read_text())["mcpServers"]


def describe(error):
    """The package and the name of an error."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__module__.partition('.')[0]}.{type(error).__name__}"
