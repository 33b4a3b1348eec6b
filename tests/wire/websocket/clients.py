"""Conversations over WebSocket in the vendors' SDKs, and what each of them hears."""

import asyncio
import ssl
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

import openai
import trustme
from google import genai
from google.genai import types

HELLO = [{"type": "input_text", "text": "say hello"}]


async def realtime(url):
    """OpenAI's Realtime client, which derives its URL from the base URL."""
    heard = []
    client = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="sk-any")
    async with client, client.realtime.connect(model="gpt-realtime") as connection:
        await connection.session.update(session={"type": "realtime", "output_modalities": ["text"]})
        await connection.conversation.item.create(item={"type": "message", "role": "user", "content": HELLO})
        await connection.response.create()
        async for event in connection:
            heard.append(event.to_dict())
            if event.type in ("response.done", "error"):
                return heard
    return heard


async def responses(url):
    """OpenAI's client of the Responses API over WebSocket."""
    heard = []
    client = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="sk-any")
    async with client, client.responses.connect() as connection:
        await connection.response.create(model="gpt-5", input="say hello")
        async for event in connection:
            heard.append(event.to_dict())
            if event.type in ("response.completed", "error"):
                return heard
    return heard


async def live(url):
    """Google's Live client. It insists on TLS, whatever its base URL says, so there is some before the server."""
    async with tls_before(url) as (tls_url, context):
        options = types.HttpOptions(base_url=tls_url, api_version="v1beta", async_client_args={"ssl": context})
        client = genai.Client(api_key="any-key-of-google", http_options=options)
        config = types.LiveConnectConfig(response_modalities=["TEXT"])
        async with client.aio.live.connect(model="gemini-2.0-flash", config=config) as session:
            turn = types.Content(role="user", parts=[types.Part(text="say hello")])
            await session.send_client_content(turns=turn, turn_complete=True)
            received = session.receive()
            return [message.model_dump(mode="json", exclude_none=True) async for message in received]


@asynccontextmanager
async def tls_before(url):
    """A port of this machine that speaks TLS, and passes everything on to `url`; and a context that trusts it."""
    authority = trustme.CA()
    serving, trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("127.0.0.1").configure_cert(serving)
    authority.configure_trust(trusting)

    async def pass_on(reader, writer):
        other_reader, other_writer = await asyncio.open_connection("127.0.0.1", urlsplit(url).port)
        await asyncio.gather(_copy(reader, other_writer), _copy(other_reader, writer))

    async with await asyncio.start_server(pass_on, "127.0.0.1", 0, ssl=serving) as server:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}{urlsplit(url).path}", trusting


async def _copy(reader, writer):
    with suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
    writer.close()


def hear(conversation, url):
    return asyncio.run(asyncio.wait_for(conversation(url), 60))
