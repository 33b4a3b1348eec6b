"""An MCP server over stdio that imports nothing of offbook. `python mcp_live.py LOG` notes in LOG what it is asked."""

import json
import sys
from pathlib import Path

BROKEN = "broken"
"""The text at which everything live fails."""


class Live:
    """Answers a text with itself and the number of the question, so that every answer is unlike others."""

    def __init__(self):
        self.asked = []

    def answer(self, text):
        self.asked.append(text)
        if text == BROKEN:
            raise ValueError("out of order")
        return f"{text} #{len(self.asked)}"


def mcp_response(message, answer):
    """The response of an MCP server of either era, whose tools are all that are called."""
    is_modern = "io.modelcontextprotocol/protocolVersion" in message.get("params", {}).get("_meta", {})
    result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "live"}}
    if message["method"] == "tools/call":
        try:
            result = {"content": [{"type": "text", "text": answer(message["params"]["arguments"]["text"])}]}
        except ValueError as error:
            result = {"content": [{"type": "text", "text": str(error)}], "isError": True}
    return {"jsonrpc": "2.0", "id": message["id"], "result": result | ({"resultType": "complete"} if is_modern else {})}


def _serve(log):
    live = Live()
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        live.asked = log.read_text().splitlines() if log.exists() else []
        response = mcp_response(message, live.answer)
        log.write_text("".join(f"{text}\n" for text in live.asked))
        sys.stdout.write(json.dumps(response) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _serve(Path(sys.argv[1]))
