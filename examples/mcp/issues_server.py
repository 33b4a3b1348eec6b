"""A real MCP server over stdio, of the standard library alone: an issue tracker that keeps its issues in memory."""

import json
import sys
from typing import Any

TOOLS = [
    {
        "name": "create_issue",
        "description": "File an issue, and return its number.",
        "inputSchema": {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]},
        "annotations": {"readOnlyHint": False, "idempotentHint": False},
    }
]
issues: list[str] = []


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    match method:
        case "initialize":
            about = {"name": "issues", "version": "1"}
            return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": about}
        case "tools/list":
            return {"tools": TOOLS}
        case "tools/call":
            issues.append(params["arguments"]["title"])
            return {"content": [{"type": "text", "text": f"#{len(issues)}"}]}
    return {}


for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        result = answer(asked["method"], asked.get("params", {}))
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
