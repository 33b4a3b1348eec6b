"""A graph of LangGraph with the tools of langchain-mcp-adapters, which open a connection for each call."""

from datetime import timedelta

from drive import PATIENCE_S, main, servers_in
from langchain.agents import create_agent
from langchain_mcp_adapters.client import MultiServerMCPClient


def connection(entry):
    fields = {name: value for name, value in entry.items() if name in ("command", "args", "env", "url", "headers")}
    patience = {"session_kwargs": {"read_timeout_seconds": timedelta(seconds=PATIENCE_S)}}
    return fields | patience | {"transport": "http" if "url" in entry else "stdio"}


async def answer(path, question):
    servers = servers_in(path)
    client = MultiServerMCPClient({name: connection(entry) for name, entry in servers.items()})
    graph = create_agent("openai:gpt-5", await client.get_tools())
    return (await graph.ainvoke({"messages": [("user", question)]}))["messages"][-1].text


main(answer)
