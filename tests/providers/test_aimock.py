"""Every vendor's provider against aimock, which speaks these protocols as others understand them."""

import pytest
from msgspec import Struct

from offbook.errors import ProviderConnectionError, ProviderError, RateLimitError
from offbook.messages import ReasoningDelta, StreamEnd, TextDelta, ToolCallDelta, Usage
from offbook.providers.http import (
    AnthropicProvider,
    CatalogProvider,
    GoogleProvider,
    OllamaProvider,
    OpenAIProvider,
    OpenAIResponsesProvider,
)

HELLO = "Good morning to all of you, and a good day — ☀."
THOUGHT = "Six times nine, or nearly so."
OSLO = ("get_weather", {"city": "Oslo", "days": 3})
BOTH = [("get_weather", {"city": "Oslo"}), ("get_weather", {"city": "Rome", "unit": "C"})]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Tells the weather.",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
    }
]


class Vendor(Struct, frozen=True):
    provider: type[CatalogProvider]
    path: str
    model: str


OPENAI = Vendor(OpenAIProvider, "/v1", "gpt-5")
RESPONSES = Vendor(OpenAIResponsesProvider, "/v1", "gpt-5")
ANTHROPIC = Vendor(AnthropicProvider, "", "claude-sonnet-4-5")
GOOGLE = Vendor(GoogleProvider, "/v1beta", "gemini-2.5-pro")
OLLAMA = Vendor(OllamaProvider, "", "deepseek-r1")


def served(*vendors):
    return pytest.mark.parametrize("vendor", vendors, ids=lambda vendor: vendor.provider.vendor_name)


every_vendor = served(OPENAI, RESPONSES, ANTHROPIC, GOOGLE, OLLAMA)


@pytest.fixture
async def provider(vendor, aimock_url):
    async with vendor.provider(base_url=aimock_url + vendor.path, api_key="any") as provider:
        yield provider


def asking(text):
    return [{"role": "system", "content": "Be brief."}, {"role": "user", "content": text}]


async def streamed(provider, vendor, text):
    """The events of a streamed answer."""
    return [event async for event in await provider.stream(asking(text), vendor.model, tools=TOOLS)]


async def read_into(seen, reply):
    async for event in reply:
        seen.append(event)


def pieces(events, kind):
    return [event.text for event in events if isinstance(event, kind)]


def calls_of(response):
    return [(call.tool, call.args) for call in response.tool_calls]


def calls_joined(events):
    """The tool calls that the deltas alone make up: name and arguments as text, by index."""
    joined = {}
    for event in events:
        if isinstance(event, ToolCallDelta):
            name, arguments = joined.get(event.index, ("", ""))
            joined[event.index] = (name + (event.tool or ""), arguments + event.arguments)
    return joined


@every_vendor
async def test_a_completion_brings_the_text(provider, vendor):
    response = await provider.complete(asking("say hello"), vendor.model)
    assert response.content == HELLO
    assert response.finish_reason == "stop"
    assert response.provider == vendor.provider.vendor_name
    assert response.model == vendor.model
    assert response.tool_calls == ()
    assert response.latency_ms > 0


@every_vendor
async def test_a_stream_brings_the_text_in_pieces_and_ends_with_the_response(provider, vendor):
    *deltas, end = await streamed(provider, vendor, "say hello")
    assert len(pieces(deltas, TextDelta)) > 3
    assert "".join(pieces(deltas, TextDelta)) == HELLO
    assert not any(isinstance(delta, StreamEnd) for delta in deltas)
    assert isinstance(end, StreamEnd)
    assert end.response.content == HELLO
    assert end.response.finish_reason == "stop"
    assert end.response.model == vendor.model


@served(OPENAI, RESPONSES, ANTHROPIC, GOOGLE)  # aimock's Ollama counts no tokens
async def test_usage_is_reported_whole_and_streamed(provider, vendor):
    response = await provider.complete(asking("say hello"), vendor.model)
    *_, end = await streamed(provider, vendor, "say hello")
    assert response.usage == end.response.usage == Usage.of(11, 7)
    assert response.cost_usd == end.response.cost_usd > 0


@served(OPENAI, RESPONSES, ANTHROPIC, GOOGLE)  # aimock's Ollama says reasoning_content where Ollama says thinking
async def test_reasoning_is_kept_apart_from_the_text(provider, vendor):
    response = await provider.complete(asking("think first"), vendor.model)
    assert response.reasoning == THOUGHT
    assert response.content == "Forty-two."
    *deltas, end = await streamed(provider, vendor, "think first")
    assert len(pieces(deltas, ReasoningDelta)) > 1
    assert "".join(pieces(deltas, ReasoningDelta)) == THOUGHT
    assert "".join(pieces(deltas, TextDelta)) == "Forty-two."
    assert end.response.reasoning == THOUGHT
    assert end.response.content == "Forty-two."


@every_vendor
async def test_a_tool_call_brings_its_arguments(provider, vendor):
    response = await provider.complete(asking("weather in Oslo"), vendor.model, tools=TOOLS)
    assert calls_of(response) == [OSLO]
    assert response.content == ""
    assert response.tool_calls[0].id


# aimock's Gemini finishes with FUNCTION_CALL, a word that Gemini does not have
@served(OPENAI, RESPONSES, ANTHROPIC, OLLAMA)
async def test_an_answer_with_tool_calls_finishes_for_them(provider, vendor):
    response = await provider.complete(asking("weather in Oslo"), vendor.model, tools=TOOLS)
    *_, end = await streamed(provider, vendor, "weather in Oslo")
    assert response.finish_reason == end.response.finish_reason == "tool_calls"


@served(OPENAI, RESPONSES, ANTHROPIC, GOOGLE)  # Ollama's protocol has no ids
async def test_a_tool_call_keeps_its_id(provider, vendor):
    response = await provider.complete(asking("weather in both"), vendor.model, tools=TOOLS)
    *_, end = await streamed(provider, vendor, "weather in both")
    assert [call.id for call in response.tool_calls] == ["call_oslo", "call_rome"]
    assert [call.id for call in end.response.tool_calls] == ["call_oslo", "call_rome"]


@every_vendor
async def test_parallel_tool_calls_are_distinguished(provider, vendor):
    response = await provider.complete(asking("weather in both"), vendor.model, tools=TOOLS)
    assert calls_of(response) == BOTH
    assert len({call.id for call in response.tool_calls}) == 2


@every_vendor
async def test_streamed_parallel_tool_calls_are_distinguished(provider, vendor):
    *deltas, end = await streamed(provider, vendor, "weather in both")
    assert calls_of(end.response) == BOTH
    assert calls_joined(deltas) == {
        index: (call.tool, call.arguments) for index, call in enumerate(end.response.tool_calls)
    }


@every_vendor
async def test_text_before_a_tool_call_is_kept(provider, vendor):
    response = await provider.complete(asking("tell and call"), vendor.model, tools=TOOLS)
    *_, end = await streamed(provider, vendor, "tell and call")
    for each in (response, end.response):
        assert each.content == "Let me look that up."
        assert calls_of(each) == [("get_weather", {"city": "Oslo"})]


@every_vendor
async def test_a_tool_result_continues_the_conversation(provider, vendor):
    messages = asking("weather in Oslo")
    response = await provider.complete(messages, vendor.model, tools=TOOLS)
    result = {"role": "tool", "tool_call_id": response.tool_calls[0].id, "content": "rain"}
    answer = await provider.complete([*messages, response.to_message(), result], vendor.model, tools=TOOLS)
    assert answer.content == "It rains in Oslo."


# aimock's Ollama always stops with "stop", and its Responses does not say why an answer is incomplete
@served(OPENAI, ANTHROPIC, GOOGLE)
async def test_an_answer_cut_by_the_token_limit_says_so(provider, vendor):
    response = await provider.complete(asking("too long"), vendor.model)
    *_, end = await streamed(provider, vendor, "too long")
    assert response.finish_reason == end.response.finish_reason == "length"
    assert response.content == end.response.content == "This is where it"


@served(OPENAI, GOOGLE)  # aimock's Anthropic has no word of its own for it, and its Ollama always says "stop"
async def test_a_filtered_answer_says_so(provider, vendor):
    response = await provider.complete(asking("forbidden"), vendor.model)
    *_, end = await streamed(provider, vendor, "forbidden")
    assert response.finish_reason == end.response.finish_reason == "content_filter"


@every_vendor
@pytest.mark.parametrize("ask", ["complete", "stream"])
async def test_a_429_is_a_rate_limit_that_says_how_long_to_wait(provider, vendor, ask):
    with pytest.raises(RateLimitError, match=r"HTTP 429: .*Slow down\.") as caught:
        await getattr(provider, ask)(asking("too often"), vendor.model)
    assert caught.value.status_code == 429
    assert caught.value.retry_after_s == 7.0
    assert "Slow down." in caught.value.body
    assert caught.value.provider == vendor.provider.vendor_name


@every_vendor
@pytest.mark.parametrize("ask", ["complete", "stream"])
async def test_a_500_is_a_provider_error_with_its_body(provider, vendor, ask):
    with pytest.raises(ProviderError, match=r"HTTP 500: .*It broke\.") as caught:
        await getattr(provider, ask)(asking("crash"), vendor.model)
    assert type(caught.value) is ProviderError
    assert caught.value.status_code == 500
    assert "It broke." in caught.value.body
    assert caught.value.headers["content-type"] == "application/json"


@every_vendor
async def test_a_connection_cut_in_the_middle_of_a_stream_is_reported(provider, vendor):
    reply = await provider.stream(asking("break off"), vendor.model)
    seen = []
    with pytest.raises(ProviderConnectionError):
        await read_into(seen, reply)
    text = "".join(pieces(seen, TextDelta))
    assert text
    assert "This sentence is long enough to be cut in the middle.".startswith(text)
    assert not any(isinstance(event, StreamEnd) for event in seen)


@every_vendor
async def test_a_provider_still_answers_after_a_broken_stream(provider, vendor):
    with pytest.raises(ProviderConnectionError):
        await (await provider.stream(asking("break off"), vendor.model)).collect()
    assert (await provider.complete(asking("say hello"), vendor.model)).content == HELLO
