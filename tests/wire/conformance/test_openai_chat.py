"""OpenAI's SDK as a client: chat completions, and the endpoints beside them."""

from collections.abc import Iterator

import openai
import pytest

from tests.wire.conformance.answers import ODD_TEXT, PLAIN, QUESTION, REASONING, STEP, Weather

pytestmark = pytest.mark.xdist_group("sdks")

ASKING = {"model": "gpt-5", "messages": [{"role": "user", "content": QUESTION}]}
OBJECT = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": OBJECT, "strict": True}}
    for name in ("weather", "clock")
]


@pytest.fixture(scope="module")
def pooled() -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url="http://unused", api_key="k", max_retries=0) as client:
        yield client


@pytest.fixture
def client(pooled, run) -> openai.OpenAI:
    return pooled.with_options(base_url=f"{run.url}/v1")


def at(step, **more):
    return ASKING | {"extra_headers": {STEP: step}} | more


class TestWhole:
    def test_an_answer_has_its_text_model_usage_and_ids(self, client):
        answer = client.chat.completions.create(**at("plain"))
        choice, usage = answer.choices[0], answer.usage
        assert choice.message.content == PLAIN
        assert choice.finish_reason == "stop"
        assert answer.model == "model-1"
        assert usage.prompt_tokens == 7
        assert usage.completion_tokens == 5
        assert usage.total_tokens == 12
        assert usage.prompt_tokens_details.cached_tokens == 3
        assert answer.id.startswith("chatcmpl-")
        assert answer._request_id.startswith("req_")

    def test_answers_to_different_questions_have_different_ids(self, client):
        first = client.chat.completions.create(**at("plain"))
        second = client.chat.completions.create(**at("plain", messages=[{"role": "user", "content": "And you?"}]))
        assert first.id != second.id

    @pytest.mark.parametrize(
        ("step", "reason"),
        [("cut", "length"), ("filtered", "content_filter"), ("tools", "tool_calls"), ("empty", "stop")],
    )
    def test_it_ends_for_the_recorded_reason(self, client, step, reason):
        assert client.chat.completions.create(**at(step)).choices[0].finish_reason == reason

    def test_odd_text_arrives_as_it_is(self, client):
        assert client.chat.completions.create(**at("odd")).choices[0].message.content == ODD_TEXT

    def test_reasoning_stands_beside_the_text(self, client):
        answer = client.chat.completions.create(**at("thinking"))
        assert answer.choices[0].message.reasoning_content == REASONING
        assert answer.usage.completion_tokens_details.reasoning_tokens == 4

    def test_tools_are_asked_for_in_parallel(self, client):
        calls = client.chat.completions.create(**at("tools", tools=TOOLS)).choices[0].message.tool_calls
        assert [(call.id, call.type, call.function.name, call.function.arguments) for call in calls] == [
            ("call_a", "function", "weather", '{"city":"Oslo"}'),
            ("call_b", "function", "clock", "{}"),
        ]

    def test_calls_without_ids_are_given_some(self, client):
        calls = client.chat.completions.create(**at("nameless")).choices[0].message.tool_calls
        assert len({call.id for call in calls} - {None}) == 2

    def test_the_conversation_goes_on_with_results(self, client, run):
        message = client.chat.completions.create(**at("tools", tools=TOOLS)).choices[0].message
        results = [{"role": "tool", "tool_call_id": call.id, "content": "fine"} for call in message.tool_calls]
        conversation = [*ASKING["messages"], message, *results]
        client.chat.completions.create(**at("plain", messages=conversation, tools=TOOLS))
        _, turn, *answered = run.session.calls[-1].request.messages
        assert [call["id"] for call in turn["tool_calls"]] == [result["tool_call_id"] for result in answered]

    def test_a_schema_is_parsed(self, client):
        answer = client.chat.completions.parse(**at("json", response_format=Weather))
        assert answer.choices[0].message.parsed == Weather(city="Oslo", celsius=21)

    def test_arguments_are_parsed(self, client):
        calls = client.chat.completions.parse(**at("tools", tools=TOOLS)).choices[0].message.tool_calls
        assert [call.function.parsed_arguments for call in calls] == [{"city": "Oslo"}, {}]

    @pytest.mark.parametrize(
        ("step", "error"),
        [("cut", openai.LengthFinishReasonError), ("filtered", openai.ContentFilterFinishReasonError)],
    )
    def test_what_was_cut_or_filtered_is_not_parsed(self, client, step, error):
        with pytest.raises(error):
            client.chat.completions.parse(**at(step, response_format=Weather))

    async def test_the_async_client_reads_the_same(self, run):
        async with openai.AsyncOpenAI(base_url=f"{run.url}/v1", api_key="k") as client:
            answer = await client.chat.completions.create(**at("plain"))
        assert answer.choices[0].message.content == PLAIN


class TestStreams:
    def test_text_comes_word_by_word_and_ends_with_the_reason(self, client):
        chunks = list(client.chat.completions.create(**at("plain", stream=True)))
        assert [chunk.choices[0].delta.content for chunk in chunks[1:-1]] == [
            "Very",
            *(f" {word}" for word in PLAIN.split()[1:]),
        ]
        assert chunks[0].choices[0].delta.role == "assistant"
        assert chunks[-1].choices[0].finish_reason == "stop"
        assert len({chunk.id for chunk in chunks}) == 1

    def test_usage_comes_only_if_it_is_asked_for(self, client):
        unasked = list(client.chat.completions.create(**at("plain", stream=True)))
        chunks = list(
            client.chat.completions.create(**at("plain", stream=True, stream_options={"include_usage": True}))
        )
        assert [chunk for chunk in unasked if chunk.usage or not chunk.choices] == []
        assert chunks[-1].choices == []
        assert chunks[-1].usage.total_tokens == 12

    def test_a_call_comes_in_pieces_of_which_the_first_has_its_id_and_name(self, client):
        chunks = client.chat.completions.create(**at("tools", stream=True))
        pieces = [piece for chunk in chunks for piece in chunk.choices[0].delta.tool_calls or ()]
        assert [(piece.index, piece.id, piece.function.name, piece.function.arguments) for piece in pieces] == [
            (0, "call_a", "weather", ""),
            (0, None, None, '{"city"'),
            (0, None, None, ': "Oslo"}'),
            (1, "call_b", "clock", "{}"),
        ]

    def test_calls_without_ids_are_given_the_same_as_in_a_whole_answer(self, client):
        chunks = client.chat.completions.create(**at("nameless", stream=True))
        pieces = [piece for chunk in chunks for piece in chunk.choices[0].delta.tool_calls or ()]
        calls = client.chat.completions.create(**at("nameless")).choices[0].message.tool_calls
        assert [piece.id for piece in pieces] == [call.id for call in calls]

    def test_reasoning_comes_before_the_text(self, client):
        deltas = [chunk.choices[0].delta for chunk in client.chat.completions.create(**at("thinking", stream=True))]
        thoughts = [getattr(delta, "reasoning_content", None) for delta in deltas]
        assert thoughts == [None, "Let me think.", " Twice.", None, None, None]

    def test_the_helper_gathers_a_schema_and_calls(self, client):
        with client.chat.completions.stream(**at("json", response_format=Weather)) as stream:
            assert stream.get_final_completion().choices[0].message.parsed == Weather(city="Oslo", celsius=21)
        with client.chat.completions.stream(**at("tools", tools=TOOLS)) as stream:
            done = [event for event in stream if event.type == "tool_calls.function.arguments.done"]
            message = stream.get_final_completion().choices[0].message
        assert [(event.name, event.parsed_arguments) for event in done] == [
            ("weather", {"city": "Oslo"}),
            ("clock", {}),
        ]
        assert message.content == "Let me look."
        assert [call.id for call in message.tool_calls] == ["call_a", "call_b"]

    def test_odd_text_arrives_as_it_is(self, client):
        chunks = client.chat.completions.create(**at("odd", stream=True))
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == ODD_TEXT

    async def test_the_async_client_reads_the_same(self, run):
        async with openai.AsyncOpenAI(base_url=f"{run.url}/v1", api_key="k") as client:
            chunks = [chunk async for chunk in await client.chat.completions.create(**at("plain", stream=True))]
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == PLAIN

    def test_a_client_that_leaves_early_may_ask_again(self, client, run):
        with client.chat.completions.create(**at("odd", stream=True)) as stream:
            next(stream)
        assert client.chat.completions.create(**at("plain")).choices[0].message.content == PLAIN


class TestBeside:
    def test_embeddings_come_as_base64_unless_floats_are_asked_for(self, client):
        packed = client.embeddings.create(model="m", input=QUESTION, dimensions=8)
        floats = client.embeddings.create(model="m", input=QUESTION, dimensions=8, encoding_format="float")
        assert packed.data[0].embedding == floats.data[0].embedding
        assert len(packed.data[0].embedding) == 8

    def test_embeddings_take_token_ids(self, client):
        one = client.embeddings.create(model="m", input=[1, 2, 3])
        many = client.embeddings.create(model="m", input=[[1, 2, 3], [4]])
        assert one.data[0].embedding == many.data[0].embedding
        assert [each.index for each in many.data] == [0, 1]

    def test_models_are_those_of_the_recording(self, client):
        assert [model.id for model in client.models.list()] == ["model-1"]
        assert client.models.retrieve("model-1").id == "model-1"

    def test_what_cannot_be_made_up_is_not_found(self, client):
        with pytest.raises(openai.NotFoundError, match="/v1/files"):
            client.files.list()

    def test_azure_asks_under_its_own_paths(self, run):
        with openai.AzureOpenAI(azure_endpoint=run.url, api_key="k", api_version="2026-01-01") as client:
            assert client.chat.completions.create(**at("plain")).choices[0].message.content == PLAIN
            assert (
                client.responses.create(model="m", input=QUESTION, extra_headers={STEP: "plain"}).output_text == PLAIN
            )

    def test_the_variables_of_the_server_lead_there(self, server, monkeypatch):
        for name, value in server.env.items():
            monkeypatch.setenv(name, value)
        with openai.OpenAI() as client:
            assert client.chat.completions.create(**at("plain")).choices[0].message.content == PLAIN
