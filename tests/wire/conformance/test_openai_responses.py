"""OpenAI's SDK as a client: responses."""

from collections.abc import Iterator

import openai
import pytest
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

from tests.wire.conformance.answers import ODD_TEXT, PLAIN, QUESTION, REASONING, STEP, Weather

pytestmark = pytest.mark.xdist_group("sdks")

ASKING = {"model": "gpt-5", "input": QUESTION}
OBJECT = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
TOOLS = [{"type": "function", "name": name, "parameters": OBJECT, "strict": True} for name in ("weather", "clock")]


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
        answer = client.responses.create(**at("plain"))
        assert answer.output_text == PLAIN
        assert answer.status == "completed"
        assert answer.model == "model-1"
        assert answer.usage.input_tokens == 7
        assert answer.usage.output_tokens == 5
        assert answer.usage.total_tokens == 12
        assert answer.usage.input_tokens_details.cached_tokens == 3
        assert answer.id.startswith("resp_")
        assert answer._request_id.startswith("req_")

    def test_answers_and_items_of_different_questions_have_different_ids(self, client):
        first, second = client.responses.create(**at("plain")), client.responses.create(**at("plain", input="And you?"))
        assert first.id != second.id
        assert first.output[0].id != second.output[0].id

    @pytest.mark.parametrize(
        ("step", "status", "reason"),
        [
            ("cut", "incomplete", "max_output_tokens"),
            ("filtered", "incomplete", "content_filter"),
            ("tools", "completed", None),
            ("empty", "completed", None),
        ],
    )
    def test_it_ends_for_the_recorded_reason(self, client, step, status, reason):
        answer = client.responses.create(**at(step))
        assert answer.status == status
        assert (answer.incomplete_details and answer.incomplete_details.reason) == reason

    def test_odd_text_arrives_as_it_is(self, client):
        assert client.responses.create(**at("odd")).output_text == ODD_TEXT

    def test_reasoning_is_an_item_before_the_message(self, client):
        answer = client.responses.create(**at("thinking"))
        assert [item.type for item in answer.output] == ["reasoning", "message"]
        assert answer.output[0].summary[0].text == REASONING
        assert answer.usage.output_tokens_details.reasoning_tokens == 4

    def test_tools_are_asked_for_in_parallel_and_their_arguments_parsed(self, client):
        _, *calls = client.responses.parse(**at("tools", tools=TOOLS)).output
        assert [(call.call_id, call.name, call.parsed_arguments) for call in calls] == [
            ("call_a", "weather", {"city": "Oslo"}),
            ("call_b", "clock", {}),
        ]

    def test_calls_without_ids_are_given_some(self, client):
        calls = client.responses.create(**at("nameless")).output
        assert len({call.call_id for call in calls} - {None}) == 2

    def test_the_conversation_goes_on_with_results(self, client, run):
        output = client.responses.create(**at("tools", tools=TOOLS)).output
        calls = [item for item in output if item.type == "function_call"]
        results = [{"type": "function_call_output", "call_id": call.call_id, "output": "fine"} for call in calls]
        conversation = [{"role": "user", "content": QUESTION}, *output, *results]
        client.responses.create(**at("plain", input=conversation, tools=TOOLS))
        _, turn, *answered = run.session.calls[-1].request.messages
        assert turn["content"] == "Let me look."
        assert [call["id"] for call in turn["tool_calls"]] == [result["tool_call_id"] for result in answered]

    def test_a_schema_is_parsed(self, client):
        answer = client.responses.parse(**at("json", text_format=Weather))
        assert answer.output_parsed == Weather(city="Oslo", celsius=21)

    async def test_the_async_client_reads_the_same(self, run):
        async with openai.AsyncOpenAI(base_url=f"{run.url}/v1", api_key="k") as client:
            assert (await client.responses.create(**at("plain"))).output_text == PLAIN

    def test_tokens_are_counted(self, client):
        assert client.responses.input_tokens.count(**ASKING).input_tokens > 0


class TestStreams:
    @pytest.mark.parametrize("step", ["plain", "thinking", "tools", "nameless", "cut", "filtered", "empty"])
    def test_events_are_declared_and_numbered_and_come_in_order(self, client, step):
        events = list(client.responses.create(**at(step, stream=True)))
        declared = TypeAdapter(ResponseStreamEvent)
        assert [declared.validate_python(event.to_dict()).type for event in events] == [event.type for event in events]
        assert [event.sequence_number for event in events] == list(range(len(events)))
        assert events[0].type == "response.created"
        assert events[-1].type in ("response.completed", "response.incomplete")

    def test_a_part_is_added_before_its_text_and_is_done_after_it(self, client):
        kinds = [event.type for event in client.responses.create(**at("cut", stream=True))]
        assert kinds == [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.incomplete",
        ]

    def test_a_call_comes_in_pieces(self, client):
        events = list(client.responses.create(**at("tools", stream=True)))
        pieces = [event.delta for event in events if event.type == "response.function_call_arguments.delta"]
        assert pieces == ["", '{"city"', ': "Oslo"}', "{}"]

    def test_the_helper_gathers_text_calls_and_a_schema(self, client):
        with client.responses.stream(**at("tools", tools=TOOLS)) as stream:
            answer = stream.get_final_response()
        assert answer.output_text == "Let me look."
        assert [item.parsed_arguments for item in answer.output[1:]] == [{"city": "Oslo"}, {}]
        with client.responses.stream(**at("json", text_format=Weather)) as stream:
            assert stream.get_final_response().output_parsed == Weather(city="Oslo", celsius=21)

    def test_the_helper_takes_only_what_is_complete(self, client):
        with client.responses.stream(**at("cut")) as stream, pytest.raises(RuntimeError, match=r"response\.completed"):
            stream.get_final_response()

    def test_the_helper_refuses_a_stream_that_just_ends(self, pooled, start):
        run = start("everywhere: stream_truncate 6 raise=clean")
        client = pooled.with_options(base_url=f"{run.url}/v1")
        with (
            client.responses.stream(**at("plain")) as stream,
            pytest.raises(RuntimeError, match=r"response\.completed"),
        ):
            stream.get_final_response()
        assert run.tries == 1

    def test_odd_text_arrives_as_it_is(self, client):
        events = client.responses.create(**at("odd", stream=True))
        assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == ODD_TEXT

    async def test_the_async_client_reads_the_same(self, run):
        async with openai.AsyncOpenAI(base_url=f"{run.url}/v1", api_key="k") as client:
            events = [event async for event in await client.responses.create(**at("plain", stream=True))]
        assert events[-1].response.output_text == PLAIN
