"""An agent that asks a model for a title, and files an issue by the tool of an MCP server."""

import json
import os
import subprocess
from typing import Any

from offbook import Provider


class ServerGoneError(Exception):
    """The server has ended before it answered."""


class McpClient:
    """A client over stdio, for the entry of an `mcpServers`. A framework or an SDK has a better one."""

    def __init__(self, server: dict[str, Any]) -> None:
        command, environment = [server["command"], *server["args"]], os.environ | server["env"]
        self._process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603
        about = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "agent", "version": "1"}}
        self._ask("initialize", about)

    def call(self, tool: str, **arguments: object) -> str:
        """Return the text of the result."""
        result = self._ask("tools/call", {"name": tool, "arguments": arguments})
        return str(result["content"][0]["text"])

    def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise ServerGoneError(method)
        result: dict[str, Any] = json.loads(line)["result"]
        return result

    def __enter__(self) -> "McpClient":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()


async def support(provider: Provider, server: dict[str, Any], report: str) -> str:
    """File an issue about the report of a user, and return what to tell them."""
    asked = [{"role": "user", "content": f"A title of three words for this report: {report}"}]
    title = (await provider.complete(asked, model="gpt-4o", step_id="title")).content
    with McpClient(server) as issues:
        try:
            return f"Filed as {issues.call('create_issue', title=title)}."
        except ServerGoneError:  # it may have been filed: filing it again could make two
            return "Your report may not have arrived. We look into it."
