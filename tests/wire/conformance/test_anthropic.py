"""Anthropic's SDK as a client."""

from collections.abc import Iterator

import anthropic
import pytest

from tests.wire.conformance.answers import ODD_TEXT, PLAIN, QUESTION, REASONING, STEP, Weather

pytestmark = pytest.mark.xdist_group("sdks")

ASKING = {"model": "claude-5", "max_tokens": 99, "messages": [{"role": "user", "content": QUESTION}]}
TOOLS = [{"name": name, "input_schema": {"type": "object"}} for name in ("weather", "clock")]


@pytest.fixture(scope="module")
def pooled() -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url="http://unused", api_key="k", max_retries=0) as client:
        yield client


@pytest.fixture
def client(pooled, run) -> anthropic.Anthropic:
    return pooled.with_options(base_url=run.url)


def at(step, **more):
    return ASKING | {"extra_headers": {STEP: step}} | more


class TestWhole:
    def test_an_answer_has_its_text_model_usage_and_ids(self, client):
        answer = client.messages.create(**at("plain"))
        assert answer.content[0].text == PLAIN
        assert answer.stop_reason == "end_turn"
        assert answer.model == "model-1"
        usage = answer.usage
        assert usage.input_tokens == 4
        assert usage.cache_read_input_tokens == 3
        assert usage.output_tokens == 5
        assert answer.id.startswith("msg_")
        assert answer._request_id.startswith("req_")

    def test_answers_to_different_questions_have_different_ids(self, client):
        first = client.messages.create(**at("plain"))
        second = client.messages.create(**at("plain", messages=[{"role": "user", "content": "And you?"}]))
        assert first.id != second.id

    @pytest.mark.parametrize(
        ("step", "reason"),
        [("cut", "max_tokens"), ("filtered", "refusal"), ("tools", "tool_use"), ("empty", "end_turn")],
    )
    def test_it_ends_for_the_recorded_reason(self, client, step, reason):
        assert client.messages.create(**at(step)).stop_reason == reason

    def test_odd_text_arrives_as_it_is(self, client):
        assert client.messages.create(**at("odd")).content[0].text == ODD_TEXT

    def test_thinking_is_a_block_before_the_text(self, client):
        thinking = {"type": "enabled", "budget_tokens": 1024}
        answer = client.messages.create(**at("thinking", thinking=thinking, max_tokens=2000))
        assert [block.type for block in answer.content] == ["thinking", "text"]
        assert answer.content[0].thinking == REASONING

    def test_tools_are_asked_for_in_parallel(self, client):
        _, *uses = client.messages.create(**at("tools", tools=TOOLS)).content
        assert [(use.id, use.name, use.input) for use in uses] == [
            ("call_a", "weather", {"city": "Oslo"}),
            ("call_b", "clock", {}),
        ]

    def test_calls_without_ids_are_given_some(self, client):
        assert len({use.id for use in client.messages.create(**at("nameless")).content} - {None}) == 2

    def test_the_conversation_goes_on_with_results(self, client, run):
        content = client.messages.create(**at("tools", tools=TOOLS)).content
        uses = [block for block in content if block.type == "tool_use"]
        results = [{"type": "tool_result", "tool_use_id": use.id, "content": "fine"} for use in uses]
        spoken = [{"role": "assistant", "content": content}, {"role": "user", "content": results}]
        client.messages.create(**at("plain", messages=[*ASKING["messages"], *spoken], tools=TOOLS))
        _, turn, *answered = run.session.calls[-1].request.messages
        assert turn["content"] == "Let me look."
        assert [call["id"] for call in turn["tool_calls"]] == [result["tool_call_id"] for result in answered]

    def test_a_schema_is_parsed(self, client):
        answer = client.messages.parse(**at("json", output_format=Weather))
        assert answer.parsed_output == Weather(city="Oslo", celsius=21)

    def test_unknown_betas_are_taken(self, client):
        answer = client.beta.messages.create(**at("plain", betas=["no-such-thing-2099-01-01"]))
        assert answer.content[0].text == PLAIN

    async def test_the_async_client_reads_the_same(self, run):
        async with anthropic.AsyncAnthropic(base_url=run.url, api_key="k") as client:
            assert (await client.messages.create(**at("plain"))).content[0].text == PLAIN


class TestStreams:
    def test_events_come_in_order_and_the_last_but_one_counts_tokens(self, client):
        events = list(client.messages.create(**at("cut", stream=True)))
        assert [event.type for event in events] == [
            "message_start",
            "content_block_start",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "message_stop",
        ]
        assert events[-2].delta.stop_reason == "max_tokens"
        assert events[-2].usage.output_tokens == 0

    def test_usage_is_reported_before_and_after(self, client):
        first, *_, last, _ = client.messages.create(**at("plain", stream=True))
        assert first.message.usage.input_tokens == 4
        assert first.message.usage.output_tokens == 0
        assert last.usage.output_tokens == 5

    def test_a_call_comes_in_pieces(self, client):
        events = client.messages.create(**at("tools", stream=True))
        deltas = [event.delta for event in events if event.type == "content_block_delta"]
        pieces = [delta.partial_json for delta in deltas if delta.type == "input_json_delta"]
        assert pieces == ["", '{"city"', ': "Oslo"}', "{}"]

    def test_the_helper_gathers_text_calls_and_thinking(self, client):
        with client.messages.stream(**at("tools", tools=TOOLS)) as stream:
            text, *uses = stream.get_final_message().content
        assert text.text == "Let me look."
        assert [use.input for use in uses] == [{"city": "Oslo"}, {}]
        with client.messages.stream(**at("thinking")) as stream:
            thoughts = [event.thinking for event in stream if event.type == "thinking"]
            thought, _ = stream.get_final_message().content
        assert thoughts == ["Let me think.", " Twice."]
        assert thought.thinking == REASONING

    def test_the_helper_has_no_message_if_nothing_came(self, pooled, start):
        run = start("everywhere: stream_truncate 0 raise=clean")
        client = pooled.with_options(base_url=run.url)
        with client.messages.stream(**at("plain")) as stream, pytest.raises(AssertionError):
            stream.get_final_message()

    def test_an_error_event_has_the_status_of_the_stream(self, pooled, start):
        run = start("everywhere: stream_truncate 3 raise=error_event")
        with pytest.raises(anthropic.APIStatusError, match="an injected error") as caught:
            list(pooled.with_options(base_url=run.url, max_retries=2).messages.create(**at("plain", stream=True)))
        assert caught.value.status_code == 200
        assert run.tries == 1

    def test_odd_text_arrives_as_it_is(self, client):
        with client.messages.stream(**at("odd")) as stream:
            assert stream.get_final_text() == ODD_TEXT

    async def test_the_async_client_reads_the_same(self, run):
        async with (
            anthropic.AsyncAnthropic(base_url=run.url, api_key="k") as client,
            client.messages.stream(**at("plain")) as stream,
        ):
            assert await stream.get_final_text() == PLAIN


class TestBeside:
    def test_tokens_are_counted_with_and_without_betas(self, client):
        plain = client.messages.count_tokens(model="m", messages=ASKING["messages"])
        beta = client.beta.messages.count_tokens(model="m", messages=ASKING["messages"], betas=["no-such-thing"])
        assert plain.input_tokens == beta.input_tokens > 0

    def test_models_are_those_of_the_recording(self, client):
        assert [model.id for model in client.models.list()] == ["model-1"]

    def test_what_cannot_be_made_up_is_not_found(self, client):
        with pytest.raises(anthropic.NotFoundError, match="/v1/files") as caught:
            client.beta.files.list()
        assert caught.value.request_id == caught.value.body["request_id"] == "req_offbook"

    def test_the_variables_of_the_server_lead_there(self, server, monkeypatch):
        for name, value in server.env.items():
            monkeypatch.setenv(name, value)
        with anthropic.Anthropic() as client:
            assert client.messages.create(**at("plain")).content[0].text == PLAIN
