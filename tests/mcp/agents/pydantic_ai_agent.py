"""An agent of pydantic-ai."""

from drive import PATIENCE_S, main, servers_in
from fastmcp.client.transports import StdioTransport
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset


def toolset(name, entry):
    if "url" in entry:
        return MCPToolset(
            entry["url"], id=name, headers=entry.get("headers"), init_timeout=PATIENCE_S, read_timeout=PATIENCE_S
        )
    client = StdioTransport(command=entry["command"], args=entry["args"], env=entry.get("env"))
    return MCPToolset(client, id=name, init_timeout=PATIENCE_S, read_timeout=PATIENCE_S)


async def answer(path, question):
    servers = servers_in(path)
    agent = Agent("openai-chat:gpt-5", toolsets=[toolset(name, entry) for name, entry in servers.items()])
    async with agent:
        return (await agent.run(question)).output


main(answer)
