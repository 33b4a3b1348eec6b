"""A small MCP server over stdio: it finds orders, refunds them and sends mail, and notes in the ledger what it did."""

import json
import os
import sys
from pathlib import Path

ORDER = {"order_id": 42, "mail": "ann@example.org"}
SCHEMA = {"type": "object"}
TOOLS = [
    {"name": "find_order", "inputSchema": SCHEMA, "annotations": {"readOnlyHint": True}},
    {"name": "refund", "inputSchema": SCHEMA},
    {"name": "mail", "inputSchema": SCHEMA, "annotations": {"destructiveHint": False}},
]
READ_ONLY = ("find_order",)
PREVENTS = {
    *("tool_error", "tool_timeout", "mcp_error", "server_exit", "unauthorized", "session_gone", "tools_changed"),
    *("input_required_forever", "task_stuck"),
}
"""The faults of calls that never reach a server."""


def would_do(calls, faults):
    """Return what the server would have done for these calls, as pairs of a tool and its arguments, if these faults,
    as pairs of a call and the name of the fault, came between."""
    counts, done, gone = {}, [], set()
    for tool, arguments in calls:
        counts[tool] = counts.get(tool, 0) + 1
        fault = next((name for at, name in faults if at == (tool, counts[tool])), "")
        gone |= {tool} if fault == "tools_changed" else set()
        if tool not in gone and fault not in PREVENTS and tool.partition(".")[2] not in READ_ONLY:
            done.append((tool, arguments))
    return done


def call(name, arguments):
    if name not in READ_ONLY and (path := os.environ.get("ZOO_LEDGER")):
        with Path(path).open("a") as ledger:
            ledger.write(json.dumps({"tool": f"desk.{name}", "arguments": arguments}) + "\n")
    result = ORDER if name == "find_order" else {"done": name, **arguments}
    return {"content": [{"type": "text", "text": json.dumps(result)}], "structuredContent": result}


def answer(method, params):
    match method:
        case "initialize":
            info = {"name": "desk", "version": "1"}
            return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info}
        case "tools/list":
            return {"tools": TOOLS}
        case "tools/call":
            return call(params["name"], params["arguments"])
        case _:
            return None


if __name__ == "__main__":
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            result = answer(message["method"], message.get("params", {}))
            error = {"error": {"code": -32601, "message": "Method not found"}}
            part = error if result is None else {"result": result}
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **part}) + "\n")
            sys.stdout.flush()
