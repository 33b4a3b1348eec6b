"""The vendors' providers: their servers, names and keys; and the responses of their SDKs as our values."""

import httpx2
import orjson
import pytest

from offbook import InputError, ToolCall, Usage
from offbook.errors import MalformedResponseError
from offbook.messages import Response
from offbook.providers import read_response
from offbook.providers.http import (
    AnthropicProvider,
    GoogleProvider,
    HttpOptions,
    OllamaProvider,
    OpenAIProvider,
    OpenAIResponsesProvider,
)
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
    assert response.provider == name
    assert response.content == "Hello."


COMPLETION = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 0,
    "model": "gpt-4o-mini",
    "choices": [
        {
            "index": 0,
            "finish_reason": "tool_calls",
            "message": {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "a", "type": "function", "function": {"name": "find", "arguments": '{"order": 42}'}}
                ],
            },
        }
    ],
    "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
}


def test_an_answer_of_the_openai_sdk_is_read_with_its_calls_usage_and_cost():
    from openai.types.chat import ChatCompletion  # noqa: PLC0415 - large, and other tests here need not have it

    completion = ChatCompletion.model_validate(COMPLETION)
    for answer in (completion, COMPLETION, completion.to_json()):
        response = read_response(answer)
        assert response.tool_calls == (ToolCall("find", {"order": 42}, "a"),)
        assert response.usage == Usage.of(100, 10)
        assert response.provider == "openai"
        assert response.cost_usd > 0


def test_other_vendors_are_named():
    answer = {"message": {"role": "assistant", "content": "Hi"}, "model": "llama3", "done": True, "done_reason": "stop"}
    response = read_response(answer, "ollama")
    assert response.content == "Hi"
    assert response.cost_usd == 0.0


def test_an_unknown_vendor_is_refused():
    with pytest.raises(InputError, match="one of: openai, openai_responses, anthropic, google, ollama"):
        read_response(COMPLETION, "opnai")


def test_what_is_no_answer_is_refused():
    with pytest.raises(InputError, match="got list"):
        read_response([COMPLETION])
    with pytest.raises(MalformedResponseError):
        read_response({"error": "nope"})
