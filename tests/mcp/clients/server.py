"""A real MCP server, over stdio or, with a port, over HTTP: run by an interpreter that has `mcp` 2."""

import sys

from mcp.server.mcpserver import Context, MCPServer
from mcp_types import ToolAnnotations

server = MCPServer("notes", instructions="Keep notes.")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
async def count(n: int, ctx: Context) -> str:
    """Count, and report it."""
    for number in range(n):
        await ctx.report_progress(number, n)
    return "counted"


@server.tool()
def fail() -> str:
    """Fail."""
    raise ValueError("nope")


@server.resource("note://one")
def one() -> str:
    """A note."""
    return "first"


@server.prompt()
def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hi {name}"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", port=int(sys.argv[1]))
    else:
        server.run("stdio")
