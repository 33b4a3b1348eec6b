"""The OpenAI SDK for Node as a client of the stand-in."""

import json

import pytest

from tests.wire.conformance.answers import JSON_TEXT, ODD_TEXT, PLAIN
from tests.wire.node.questions import CHAT, RESPONSES

pytestmark = pytest.mark.xdist_group("node_sdks")

TOOLS = [("call_a", "weather", {"city": "Oslo"}), ("call_b", "clock", {})]
SCHEMA = {
    "name": "report",
    "schema": {"type": "object", "properties": {}, "additionalProperties": False},
    "strict": True,
}


def calls_of(answer):
    calls = answer["choices"][0]["message"]["tool_calls"]
    return [(call["id"], call["function"]["name"], json.loads(call["function"]["arguments"])) for call in calls]


def test_a_chat_brings_the_text_and_the_usage(ask):
    answer = ask(CHAT).value
    assert answer["choices"][0]["message"]["content"] == PLAIN
    assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] == 3


@pytest.mark.parametrize("question", [CHAT, RESPONSES], ids=["chat", "responses"])
@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
def test_odd_text_comes_unchanged(ask, question, is_streamed):
    result = ask(question, "odd", is_streamed=is_streamed)
    assert question.seen(result, is_streamed=is_streamed).text == ODD_TEXT


def test_a_streamed_chat_comes_in_pieces_without_usage(ask):
    pieces = ask(CHAT, is_streamed=True).pieces
    assert len(pieces) > 3
    assert not any(piece.get("usage") for piece in pieces)


def test_a_streamed_chat_ends_with_usage_if_it_is_asked_for(ask):
    *pieces, last = ask(CHAT, is_streamed=True, params={"stream_options": {"include_usage": True}}).pieces
    assert not any(piece.get("usage") for piece in pieces)
    assert last["choices"] == []
    assert last["usage"]["total_tokens"] == 12


def test_parallel_tool_calls_come_whole(ask):
    assert calls_of(ask(CHAT, "tools").value) == TOOLS


def test_parallel_tool_calls_streamed_in_pieces_are_put_together(ask):
    answer = ask(CHAT, "tools", call="chat.completions.stream", final="finalChatCompletion").value
    assert calls_of(answer) == TOOLS
    assert answer["choices"][0]["finish_reason"] == "tool_calls"


def test_structured_output_is_parsed(ask):
    form = {"response_format": {"type": "json_schema", "json_schema": SCHEMA}}
    answer = ask(CHAT, "json", call="chat.completions.parse", params=form).value
    assert answer["choices"][0]["message"]["parsed"] == json.loads(JSON_TEXT)


@pytest.mark.parametrize(
    "how",
    [{"call": "responses.parse"}, {"call": "responses.stream", "final": "finalResponse"}],
    ids=["whole", "streamed"],
)
def test_structured_output_of_responses_is_parsed(ask, how):
    answer = ask(RESPONSES, "json", params={"text": {"format": {"type": "json_schema", **SCHEMA}}}, **how).value
    assert answer["output_parsed"] == json.loads(JSON_TEXT)


def test_a_response_brings_the_text_and_the_usage(ask):
    answer = ask(RESPONSES).value
    assert answer["output_text"] == PLAIN
    assert answer["status"] == "completed"
    assert answer["usage"]["total_tokens"] == 12


def test_the_events_of_a_response_are_numbered_and_end_with_it(ask):
    pieces = ask(RESPONSES, is_streamed=True).pieces
    assert [piece["sequence_number"] for piece in pieces] == list(range(len(pieces)))
    assert pieces[0]["type"] == "response.created"
    assert pieces[-1]["type"] == "response.completed"


def test_tool_calls_of_a_streamed_response_are_put_together(ask):
    answer = ask(RESPONSES, "tools", call="responses.stream", final="finalResponse").value
    items = [item for item in answer["output"] if item["type"] == "function_call"]
    assert [(item["call_id"], item["name"], json.loads(item["arguments"])) for item in items] == TOOLS


def test_embeddings_that_come_as_base64_are_decoded(ask):
    """Without an encoding the SDK asks for base64."""

    def embed(**form):
        payload = {"model": "text-embedding-3-small", "input": ["one", "two"], **form}
        return [entry["embedding"] for entry in ask(CHAT, call="embeddings.create", params=payload).value["data"]]

    decoded = embed()
    assert [len(vector) for vector in decoded] == [1536, 1536]
    assert decoded[0] != decoded[1]
    assert decoded[0] == pytest.approx(embed(encoding_format="float")[0])


def test_models_are_listed(ask):
    page = ask(CHAT, call="models.list", params={}).value
    assert "model-1" in [model["id"] for model in page["data"]]
