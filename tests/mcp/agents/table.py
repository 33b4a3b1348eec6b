"""The table of what agents do about the faults of MCP servers: `python -m tests.mcp.agents.table` renews it."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

from offbook import serving
from offbook.faults import TOOL_FAULT_TYPES
from offbook.server import McpWireServer
from offbook.text import shorten
from tests.mcp.agents.catalog import FRAMEWORKS, NUMBERS, Framework, script
from tests.wire.documented_table import DocumentedTable

TABLE = DocumentedTable("mcp/faults.md", "## What agents do about faults", groups=True, variants=(", stdio", ", HTTP"))
RENEWAL = "docs/mcp/faults.md is out of date: python -m tests.mcp.agents.table renews it"
ENTRIES = {"stdio": {"command": "none"}, "HTTP": {"type": "http", "url": "http://127.0.0.1:1/mcp"}}
RESULT = "three"
SHOWN_CHARS = 50
TIMEOUT_S = 300
_PROPERTIES = {name: {"type": "integer"} for name in NUMBERS}
_LISTED = {"name": "add", "inputSchema": {"type": "object", "properties": _PROPERTIES}}
FAULTS = sorted(name for name, kind in TOOL_FAULT_TYPES.items() if "lies" not in kind.traits)
"""The faults that an agent can see. A lie is a result like any other."""

_RECORDING = script("add", "add") | {
    "_version": 2,
    "_tools": {"notes.add": [{"arguments": NUMBERS, "result": RESULT}] * 4},
    "_mcp": {"notes": {"tools/list": [{"arguments": {}, "result": {"tools": [_LISTED]}}]}},
}


def observed(framework: Framework, transport: str) -> dict[str, str]:
    """What an agent does about each fault at the first of two calls of a tool, by the name of the fault."""
    with serving(responses=_RECORDING, strict=True, mcp={"notes": ENTRIES[transport]}) as server:
        runs = [_begin(server, fault) for fault in FAULTS]
        done = subprocess.run(
            [*framework.command, "--each"],
            input=json.dumps(runs),
            env=os.environ | {"OPENAI_API_KEY": "none"},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        outcomes = json.loads(done.stdout) if done.returncode == 0 else []
        if len(outcomes) != len(runs):
            raise RuntimeError(done.stderr)
        return {f"`{fault}`": _cell(server, fault, outcome) for fault, outcome in zip(FAULTS, outcomes, strict=True)}


def _begin(server: McpWireServer, fault: str) -> tuple[str, str]:
    server.start_session(fault, faults=[f"tool=notes.add call=1: {fault}"])
    return server.mcp_of_session(fault)["notes"].path, f"{server.session_url(fault)}/v1"


def _cell(server: McpWireServer, fault: str, outcome: dict[str, str]) -> str:
    """What the model was told instead of the result, the error with which the run ended, and calls that it did not
    ask for."""
    asked = [call.request for call in server.session(fault).calls if call.request is not None]
    told = [_text(message["content"]) for message in asked[-1].messages if message["role"] == "tool"]
    calls = sum(call.session == fault for call in server.tool_calls)
    parts = ["the result" if text == RESULT else f"“{shorten(text, SHOWN_CHARS)}”" for text in told[:1]]
    error = outcome.get("error", "")
    is_by_chance = bool(told) and error.startswith("httpx")  # its transport may notice the same, at about the same time
    parts += [f"`{error}`"] if error and not is_by_chance else []
    more = f" ({calls} calls)" if calls > 2 else ""
    return ", then ".join(parts) + more


def _text(content: Any) -> str:
    parts = content if isinstance(content, list) else [{"text": content}]
    text = " ".join(" ".join(str(part.get("text", part)).split()) for part in parts)
    return text.replace("|", "/") or "nothing"


def renew() -> None:
    """Ask all agents, and write what they did into the page."""
    columns = {
        f"{framework.name}, {transport}": observed(framework, transport)
        for framework in FRAMEWORKS
        for transport in ENTRIES
    }
    TABLE.write(columns)


if __name__ == "__main__":
    renew()
