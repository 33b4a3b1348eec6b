"""The vendors' providers know where their servers are, what they are called and how they want the key."""

import httpx2
import orjson
import pytest

from offbook.messages import Response
from offbook.providers.catalog import (
    AnthropicProvider,
    GoogleProvider,
    OllamaProvider,
    OpenAIProvider,
    OpenAIResponsesProvider,
)
from offbook.providers.http import HttpOptions
from offbook.providers.pricing import Price, PriceTable
from offbook.vendors import CODEC_NAMES, codec_of

HI = [{"role": "user", "content": "Hi"}]


async def exchange(kind, *, stream=False, **options):
    """The request that a provider of this kind sends for "Hi", and the response it makes of "Hello."."""
    codec, requests = codec_of(CODEC_NAMES[kind.vendor_name]), []
    answer = Response(content="Hello.", model="m")

    def server(request):
        requests.append(request)
        whole = orjson.dumps(codec.encode_response(answer))
        return httpx2.Response(200, content=b"".join(codec.encode_stream(answer, [])) if stream else whole)

    async with kind(http=HttpOptions(transport=httpx2.MockTransport(server)), **options) as provider:
        reply = await (provider.stream(HI, "m", max_tokens=9) if stream else provider.complete(HI, "m", max_tokens=9))
        response = await reply.collect() if stream else reply
    return requests[0], response


@pytest.mark.parametrize(
    ("kind", "url", "stream_url"),
    [
        (
            OpenAIProvider,
            "https://api.openai.com/v1/chat/completions",
            "https://api.openai.com/v1/chat/completions",
        ),
        (
            OpenAIResponsesProvider,
            "https://api.openai.com/v1/responses",
            "https://api.openai.com/v1/responses",
        ),
        (
            AnthropicProvider,
            "https://api.anthropic.com/v1/messages",
            "https://api.anthropic.com/v1/messages",
        ),
        (
            GoogleProvider,
            "https://generativelanguage.googleapis.com/v1beta/models/m:generateContent",
            "https://generativelanguage.googleapis.com/v1beta/models/m:streamGenerateContent?alt=sse",
        ),
        (
            OllamaProvider,
            "http://127.0.0.1:11434/api/chat",
            "http://127.0.0.1:11434/api/chat",
        ),
    ],
)
async def test_requests_go_to_the_vendor(kind, url, stream_url):
    assert str((await exchange(kind))[0].url) == url
    assert str((await exchange(kind, stream=True))[0].url) == stream_url


@pytest.mark.parametrize(
    ("kind", "header", "value"),
    [
        (OpenAIProvider, "authorization", "Bearer key-1"),
        (OpenAIResponsesProvider, "authorization", "Bearer key-1"),
        (AnthropicProvider, "x-api-key", "key-1"),
        (GoogleProvider, "x-goog-api-key", "key-1"),
        (OllamaProvider, "authorization", "Bearer key-1"),
    ],
)
async def test_the_key_is_sent_the_way_of_the_vendor_or_not_at_all(kind, header, value):
    assert (await exchange(kind, api_key="key-1"))[0].headers[header] == value
    assert header not in (await exchange(kind))[0].headers


@pytest.mark.parametrize(
    "kind", [OpenAIProvider, OpenAIResponsesProvider, AnthropicProvider, GoogleProvider, OllamaProvider]
)
async def test_address_name_and_prices_can_be_given(kind):
    prices = PriceTable({"m": Price(prompt=1.0, completion=1.0)})
    request, response = await exchange(kind, base_url="http://host:9/x/", name="mine", prices=prices)
    assert str(request.url).startswith("http://host:9/x/")
    assert response.provider == "mine"


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (OpenAIProvider, "openai"),
        (OpenAIResponsesProvider, "openai_responses"),
        (AnthropicProvider, "anthropic"),
        (GoogleProvider, "google"),
        (OllamaProvider, "ollama"),
    ],
)
async def test_responses_bear_the_name_of_the_vendor(kind, name):
    response = (await exchange(kind))[1]
    assert (response.provider, response.content) == (name, "Hello.")
