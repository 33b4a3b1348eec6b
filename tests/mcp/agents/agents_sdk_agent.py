"""An agent of the OpenAI Agents SDK."""

from contextlib import AsyncExitStack

from agents import Agent, Runner, set_default_openai_client, set_tracing_disabled
from agents.mcp import MCPServerStdio, MCPServerStreamableHttp
from drive import PATIENCE_S, main, servers_in
from openai import AsyncOpenAI

set_tracing_disabled(True)


def server(name, entry):
    kind = MCPServerStreamableHttp if "url" in entry else MCPServerStdio
    fields = {field: value for field, value in entry.items() if field in ("command", "args", "env", "url", "headers")}
    return kind(fields, name=name, client_session_timeout_seconds=PATIENCE_S)


async def answer(path, question):
    servers = servers_in(path)
    set_default_openai_client(AsyncOpenAI())
    async with AsyncExitStack() as stack:
        opened = [await stack.enter_async_context(server(name, entry)) for name, entry in servers.items()]
        agent = Agent(name="Calculator", model="gpt-5", mcp_servers=opened)
        return (await Runner.run(agent, question)).final_output


main(answer)
