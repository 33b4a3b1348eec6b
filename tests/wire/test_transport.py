"""Clients in the same process: what they are answered, and when."""

import asyncio

import anthropic
import httpx2
import ollama
import openai
import pytest
from google import genai

import offbook

pytestmark = pytest.mark.xdist_group("openai_sdk")

HELLO = {"a": {"content": "Hello there, my friend"}}
HI = [{"role": "user", "content": "Hi"}]
ASKED = {"model": "m", "messages": HI}


def openai_of(stand_in, **options):
    return openai.AsyncOpenAI(api_key="none", http_client=stand_in.http_client(), **options)


async def text_of(client, messages=HI, **options):
    answer = await client.chat.completions.create(model="m", messages=messages, **options)
    return answer.choices[0].message.content


def test_the_sdks_of_all_vendors_are_answered_at_their_real_addresses():
    stand_in = offbook.StandIn(responses=HELLO)
    chat = openai.OpenAI(api_key="none", http_client=stand_in.sync_http_client())
    assert chat.chat.completions.create(model="m", messages=HI).choices[0].message.content == HELLO["a"]["content"]
    assert chat.responses.create(model="m", input="Hi").output_text == HELLO["a"]["content"]
    claude = anthropic.Anthropic(api_key="none", http_client=stand_in.sync_http_client())
    assert claude.messages.create(model="m", max_tokens=9, messages=HI).content[0].text == HELLO["a"]["content"]
    options = genai.types.HttpOptions(httpx_client=stand_in.sync_http_client())
    gemini = genai.Client(api_key="none", http_options=options)
    assert gemini.models.generate_content(model="m", contents="Hi").text == HELLO["a"]["content"]
    llama = ollama.Client(transport=stand_in.httpx_transport())
    assert llama.chat("m", HI).message.content == HELLO["a"]["content"]
    assert [call.vendor for call in stand_in.calls] == ["openai", "openai", "anthropic", "google", "ollama"]


def test_sdks_that_await_are_answered_too():
    stand_in = offbook.StandIn(responses=HELLO)

    async def main():
        claude = anthropic.AsyncAnthropic(api_key="none", http_client=stand_in.http_client())
        async with claude.messages.stream(model="m", max_tokens=9, messages=HI) as stream:
            assert await stream.get_final_text() == HELLO["a"]["content"]
        assert await text_of(openai_of(stand_in)) == HELLO["a"]["content"]
        gemini = genai.Client(
            api_key="none", http_options=genai.types.HttpOptions(httpx_async_client=stand_in.http_client())
        )
        texts = [
            piece.text async for piece in await gemini.aio.models.generate_content_stream(model="m", contents="Hi")
        ]
        assert "".join(filter(None, texts)) == HELLO["a"]["content"]
        llama = ollama.AsyncClient(transport=stand_in.httpx_transport())
        assert (await llama.chat("m", HI)).message.content == HELLO["a"]["content"]

    offbook.run(main(), virtual_time=True)


def test_a_timeout_of_thirty_seconds_costs_no_time_on_the_virtual_clock():
    stand_in = offbook.StandIn(responses=HELLO, faults=["call=1: timeout"])

    async def main():
        client = openai_of(stand_in, timeout=30, max_retries=0)
        with pytest.raises(openai.APITimeoutError):
            await text_of(client)
        return asyncio.get_running_loop().time()

    assert 30 <= offbook.run(main(), virtual_time=True) < 31


def test_a_silence_of_which_the_client_never_tires_lasts_until_the_test_does():
    stand_in = offbook.StandIn(responses=HELLO, faults=["call=1: timeout", "call=2: timeout 90000"])

    async def main():
        client = stand_in.http_client()
        client.timeout = None
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.post("https://api.example/v1/chat/completions", json=ASKED), 3600)
        with pytest.raises(httpx2.ReadError, match="reset"):
            await client.post("https://api.example/v1/chat/completions", json=ASKED | {"model": "other"})
        return asyncio.get_running_loop().time()

    assert offbook.run(main(), virtual_time=True) == pytest.approx(3690)


def test_a_call_takes_the_time_that_the_latency_model_says():
    stand_in = offbook.StandIn(responses=HELLO, latency_ms=4000)

    async def main():
        loop, client = asyncio.get_running_loop(), openai_of(stand_in)
        await text_of(client)
        began_s = loop.time()
        await asyncio.gather(text_of(client), text_of(client, [{"role": "user", "content": "Hi you"}]))
        return loop.time() - began_s

    assert offbook.run(main(), virtual_time=True) == pytest.approx(4)


def test_the_pieces_of_a_stream_come_one_by_one_at_their_times():
    entry = {"content": "Hi you two", "latency_ms": 500, "chunks": [[100, "Hi "], [200, "you "], [400, "two"]]}
    stand_in = offbook.StandIn(responses={"a": entry}, latency_model="replay")

    async def main():
        loop, client = asyncio.get_running_loop(), openai_of(stand_in)
        await client.models.list()
        began_s = loop.time()
        stream = await client.chat.completions.create(model="m", messages=HI, stream=True)
        assert loop.time() == began_s
        seen = [(round(1000 * (loop.time() - began_s)), chunk.choices[0].delta.content) async for chunk in stream]
        return [each for each in seen if each[1]], round(1000 * (loop.time() - began_s))

    assert offbook.run(main(), virtual_time=True) == ([(100, "Hi "), (200, "you "), (400, "two")], 500)


def test_a_reader_that_is_slow_itself_finds_what_has_come_meanwhile():
    entry = {"content": "Hi you", "latency_ms": 200, "chunks": [[100, "Hi "], [200, "you"]]}
    stand_in = offbook.StandIn(responses={"a": entry}, latency_model="replay")

    async def main():
        loop, client = asyncio.get_running_loop(), stand_in.http_client()
        async with client.stream("POST", "https://x/v1/chat/completions", json=ASKED | {"stream": True}) as response:
            await asyncio.sleep(5)
            assert len([data async for data in response.aiter_raw()]) > 1
        return loop.time()

    assert offbook.run(main(), virtual_time=True) == pytest.approx(5)


def test_sync_clients_wait_for_real():
    client = offbook.sync_http_client(responses=HELLO, latency_ms=20)
    response = client.post("https://api.example/v1/chat/completions", json=ASKED)
    assert response.elapsed.total_seconds() >= 0.02
