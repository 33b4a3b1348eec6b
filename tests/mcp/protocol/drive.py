"""Uses the server that asks with the client of `mcp` 1, by the transports of its config, and prints what happened."""

import asyncio
import json
import sys
from contextlib import AsyncExitStack
from urllib.parse import parse_qs, urlsplit

import httpx
from mcp.client.auth import OAuthClientProvider
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client
from mcp.shared.auth import OAuthClientMetadata

from mcp import ClientSession, StdioServerParameters, types

CALLBACK = "http://127.0.0.1:1/callback"


class Logins:
    """What a client keeps of its login, and a user who agrees to everything."""

    def __init__(self):
        self.tokens = self.client = self.location = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client_info):
        self.client = client_info

    async def agree(self, url):
        async with httpx.AsyncClient() as browser:
            self.location = (await browser.get(url)).headers["location"]

    async def callback(self):
        sent = parse_qs(urlsplit(self.location).query)
        return sent["code"][0], sent.get("state", [None])[0]


def login(entry, logins):
    if not entry.get("login"):
        return None
    about = OAuthClientMetadata(redirect_uris=[CALLBACK], client_name="test")
    return OAuthClientProvider(entry["url"], about, logins, logins.agree, logins.callback)


def transport(entry, logins):
    if entry.get("type") == "sse":
        return sse_client(entry["url"])
    if "url" in entry:
        return streamablehttp_client(entry["url"], auth=login(entry, logins))
    return stdio_client(StdioServerParameters(command=entry["command"], args=entry["args"], env=entry["env"]))


class User:
    """Answers what the server asks, and notes what it says."""

    def __init__(self, name):
        self.name, self.asked, self.notified, self.progress = name, [], [], []
        self.has_changed = asyncio.Event()

    async def elicit(self, context, params):
        self.asked.append(params.message)
        return types.ElicitResult(action="accept", content={"name": self.name})

    async def sample(self, context, params):
        self.asked.append(params.messages[0].content.text)
        said = types.TextContent(type="text", text="Hello")
        return types.CreateMessageResult(role="assistant", content=said, model="m")

    async def hear(self, message):
        if isinstance(message, types.ServerNotification):
            self.notified.append(message.root.method)
            if message.root.method == "notifications/resources/updated":
                self.has_changed.set()

    async def report(self, done, total, message):
        self.progress.append(done)


async def use(entry, name):
    user, logins = User(name), Logins()
    async with AsyncExitStack() as stack:
        read, write, *_ = await stack.enter_async_context(transport(entry, logins))
        client = ClientSession(
            read,
            write,
            sampling_callback=user.sample,
            elicitation_callback=user.elicit,
            message_handler=user.hear,
        )
        await stack.enter_async_context(client)
        await client.initialize()
        asked = await client.call_tool("ask", {}, progress_callback=user.report)
        result = {"result": asked.content[0].text, "is_error": asked.isError, "asked": user.asked}
        result["progress"] = user.progress
        result["change"] = (await client.call_tool("change", {})).content[0].text
        await asyncio.wait_for(user.has_changed.wait(), 20)
    return result | {"notified": sorted(user.notified), "has_logged_in": logins.tokens is not None}


async def main(path, name):
    with open(path) as file:  # noqa: ASYNC230, PTH123 - nothing else runs
        servers = json.load(file)["mcpServers"]
    results = {}
    for each, entry in servers.items():
        try:
            results[each] = await use(entry, name)
        except BaseException as error:
            while isinstance(error, BaseExceptionGroup):
                error = error.exceptions[0]
            results[each] = f"{type(error).__name__}: {error}"
    sys.stdout.write(json.dumps(results))


asyncio.run(main(*sys.argv[1:]))
