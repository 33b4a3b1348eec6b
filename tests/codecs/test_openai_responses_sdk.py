"""OpenAI's own SDK against a server that speaks responses by our codec."""

import pytest
from openai import OpenAI, RateLimitError
from openai.types.responses import Response as SdkResponse
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

from offbook.errors import ProviderError
from offbook.messages import Response, ToolCall, Usage
from offbook.providers import read_response
from offbook.vendors import codec_of
from tests.servers.models import CodecServer

TOOL = {"type": "function", "name": "weather", "parameters": {"type": "object"}, "strict": False}
CALLING = Response(
    content="Let me look.",
    model="gpt-5",
    usage=Usage.of(36, 87, cached=12, reasoning=64),
    finish_reason="tool_calls",
    tool_calls=(ToolCall("weather", {"city": "Paris"}, "call_1"), ToolCall("clock", {}, "call_2")),
    reasoning="Hm.",
)
DONE = Response(content="Sunny, at noon.", model="gpt-5", usage=Usage.of(1, 2))
CHAT_OF_THE_SAME_USAGE = {
    "model": "gpt-5",
    "choices": [{"message": {"content": ""}}],
    "usage": {"prompt_tokens": 36, "completion_tokens": 87, "prompt_tokens_details": {"cached_tokens": 12}},
}
CUT = Response(content="Sun", model="gpt-5", finish_reason="length")


def answer(request):
    last = request.messages[-1]
    if last["content"] == "too often":
        raise ProviderError("Slow down.", status_code=429)
    if last["content"] == "too long":
        return CUT
    return DONE if last["role"] == "tool" else CALLING


@pytest.fixture
def server():
    with CodecServer(codec_of("openai_responses"), answer) as server:
        yield server


@pytest.fixture
def client(server):
    with OpenAI(base_url=server.url, api_key="any", max_retries=0) as client:
        yield client


def results(response):
    """The results of an answer's calls, as an agent would send them back."""
    calls = [item for item in response.output if item.type == "function_call"]
    return [{"type": "function_call_output", "call_id": call.call_id, "output": "fine"} for call in calls]


def test_a_response_is_read_whole(client):
    response = client.responses.create(model="gpt-5", input="Weather?", tools=[TOOL])
    assert response.status == "completed"
    assert response.output_text == "Let me look."
    reasoning, _, call, _ = response.output
    assert reasoning.summary[0].text == "Hm."
    assert call.call_id == "call_1"
    assert call.name == "weather"
    assert call.arguments == '{"city":"Paris"}'
    assert response.usage.input_tokens == 36
    assert response.usage.input_tokens_details.cached_tokens == 12


@pytest.mark.parametrize("response", [CALLING, DONE, CUT])
def test_a_response_has_all_that_the_sdk_declares(response):
    encoded = codec_of("openai_responses").encode_response(response)
    assert SdkResponse.model_validate(encoded).model == "gpt-5"


def test_the_answer_of_the_sdk_is_read_as_ours_with_its_cost(client):
    response = read_response(client.responses.create(model="gpt-5", input="Weather?"), "openai_responses")
    assert response.content == CALLING.content
    assert response.tool_calls == CALLING.tool_calls
    assert response.usage == CALLING.usage
    assert response.provider == "openai_responses"
    assert response.cost_usd == read_response(CHAT_OF_THE_SAME_USAGE).cost_usd > 0


def test_a_conversation_goes_on_with_the_items_of_the_answer(client, server):
    question = {"role": "user", "content": "Weather?"}
    first = client.responses.create(model="gpt-5", instructions="Be brief.", input=[question], tools=[TOOL])
    response = client.responses.create(model="gpt-5", input=[question, *first.output, *results(first)], tools=[TOOL])
    assert response.output_text == "Sunny, at noon."
    assert server.requests[0].messages == ({"role": "system", "content": "Be brief."}, question)
    _, turn, weather, clock = server.requests[1].messages
    assert turn["content"] == "Let me look."
    assert turn["reasoning_content"] == "Hm."
    assert [call["id"] for call in turn["tool_calls"]] == ["call_1", "call_2"]
    assert weather["tool_call_id"] == "call_1"
    assert clock["tool_call_id"] == "call_2"
    assert clock["content"] == "fine"


def test_a_stream_is_read_event_by_event_as_the_sdk_declares_them(client):
    events = list(client.responses.create(model="gpt-5", input="Weather?", tools=[TOOL], stream=True))
    declared = TypeAdapter(ResponseStreamEvent)
    assert [declared.validate_python(event.to_dict()).type for event in events] == [event.type for event in events]
    assert [event.delta for event in events if event.type == "response.output_text.delta"] == ["Let me look."]
    assert [event.delta for event in events if event.type == "response.reasoning_summary_text.delta"] == ["Hm."]
    finished = [event for event in events if event.type == "response.function_call_arguments.done"]
    assert [(event.name, event.arguments) for event in finished] == [("weather", '{"city":"Paris"}'), ("clock", "{}")]
    assert events[-1].response.usage.output_tokens_details.reasoning_tokens == 64


def test_a_stream_is_gathered_by_the_helper_of_the_sdk(client):
    with client.responses.stream(model="gpt-5", input="Weather?", tools=[TOOL]) as stream:
        snapshots = [event.snapshot for event in stream if event.type == "response.function_call_arguments.delta"]
        response = stream.get_final_response()
    assert snapshots == ['{"city":"Paris"}', "{}"]
    assert response.output_text == "Let me look."
    assert [item.type for item in response.output] == ["reasoning", "message", "function_call", "function_call"]


def test_an_answer_cut_by_a_limit_is_incomplete_whole_and_streamed(client):
    whole = client.responses.create(model="gpt-5", input="too long")
    *_, last = client.responses.create(model="gpt-5", input="too long", stream=True)
    assert last.type == "response.incomplete"
    for response in (whole, last.response):
        assert response.status == "incomplete"
        assert response.incomplete_details.reason == "max_output_tokens"


def test_an_error_is_understood(client):
    with pytest.raises(RateLimitError) as caught:
        client.responses.create(model="gpt-5", input="too often")
    assert caught.value.body["message"] == "Slow down."
    assert caught.value.type == "rate_limit_error"
