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
