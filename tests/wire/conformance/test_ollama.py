"""Ollama's SDK as a client."""

import ollama
import pytest

from tests.wire.conformance.answers import ODD_TEXT, PLAIN, QUESTION, REASONING, STEP, Weather

pytestmark = pytest.mark.xdist_group("sdks")

MESSAGES = [{"role": "user", "content": QUESTION}]


@pytest.fixture
def client(run):
    """A client whose calls a step answers."""
    clients = []

    def made(step):
        clients.append(ollama.Client(host=run.url, headers={STEP: step}, verify=False))
        return clients[-1]

    yield made
    for each in clients:
        each.close()


class TestWhole:
    def test_an_answer_has_its_text_model_and_counts(self, client):
        answer = client("plain").chat("llama", MESSAGES)
        assert answer.message.content == PLAIN
        assert answer.done
        assert answer.done_reason == "stop"
        assert answer.model == "model-1"
        assert answer.prompt_eval_count == 7
        assert answer.eval_count == 5
        assert answer.total_duration == 0

    @pytest.mark.parametrize(("step", "reason"), [("cut", "length"), ("tools", "stop"), ("empty", "stop")])
    def test_it_ends_for_the_recorded_reason(self, client, step, reason):
        assert client(step).chat("llama", MESSAGES).done_reason == reason

    def test_odd_text_arrives_as_it_is(self, client):
        assert client("odd").chat("llama", MESSAGES).message.content == ODD_TEXT

    def test_thinking_stands_beside_the_text(self, client):
        message = client("thinking").chat("llama", MESSAGES, think=True).message
        assert message.thinking == REASONING
        assert message.content == "Forty-two."

    def test_tools_are_asked_for_in_parallel(self, client):
        calls = client("tools").chat("llama", MESSAGES).message.tool_calls
        assert [(call.function.name, call.function.arguments) for call in calls] == [
            ("weather", {"city": "Oslo"}),
            ("clock", {}),
        ]

    def test_the_conversation_goes_on_with_results(self, client, run):
        message = client("tools").chat("llama", MESSAGES).message
        results = [{"role": "tool", "tool_name": call.function.name, "content": "fine"} for call in message.tool_calls]
        client("plain").chat("llama", [*MESSAGES, message, *results])
        _, turn, *answered = run.session.calls[-1].request.messages
        assert [call["id"] for call in turn["tool_calls"]] == [result["tool_call_id"] for result in answered]

    def test_a_schema_is_parsed(self, client, run):
        schema = Weather.model_json_schema()
        answer = client("json").chat("llama", MESSAGES, format=schema)
        assert Weather.model_validate_json(answer.message.content) == Weather(city="Oslo", celsius=21)
        assert run.session.calls[-1].request.extra["format"] == schema

    async def test_the_async_client_reads_the_same(self, run):
        async with ollama.AsyncClient(host=run.url, headers={STEP: "plain"}, verify=False) as client:
            assert (await client.chat("llama", MESSAGES)).message.content == PLAIN


class TestStreams:
    def test_text_comes_word_by_word_and_the_last_line_counts(self, client):
        *lines, last = client("plain").chat("llama", MESSAGES, stream=True)
        assert "".join(line.message.content for line in lines) == PLAIN
        assert not any(line.done for line in lines)
        assert last.done
        assert last.done_reason == "stop"
        assert last.eval_count == 5

    def test_calls_come_whole_one_a_line(self, client):
        lines = list(client("tools").chat("llama", MESSAGES, stream=True))
        calls = [[call.function.name for call in line.message.tool_calls or ()] for line in lines]
        assert [call for call in calls if call] == [["weather"], ["clock"]]

    def test_thinking_comes_before_the_text(self, client):
        messages = [line.message for line in client("thinking").chat("llama", MESSAGES, stream=True)]
        assert [message.thinking for message in messages if message.thinking] == ["Let me think.", " Twice."]
        assert "".join(message.content for message in messages) == "Forty-two."

    def test_odd_text_arrives_as_it_is(self, client):
        assert "".join(line.message.content for line in client("odd").chat("llama", MESSAGES, stream=True)) == ODD_TEXT

    async def test_the_async_client_reads_the_same(self, run):
        async with ollama.AsyncClient(host=run.url, headers={STEP: "plain"}, verify=False) as client:
            lines = [line async for line in await client.chat("llama", MESSAGES, stream=True)]
        assert "".join(line.message.content for line in lines) == PLAIN


class TestBeside:
    def test_embeddings_come_for_each_text(self, client):
        assert [len(each) for each in client("plain").embed("m", ["One", "Two"], dimensions=8).embeddings] == [8, 8]

    def test_models_are_those_of_the_recording(self, client):
        assert [model.model for model in client("plain").list().models] == ["model-1:latest"]

    def test_the_variables_of_the_server_lead_there(self, server, monkeypatch):
        for name, value in server.env.items():
            monkeypatch.setenv(name, value)
        with ollama.Client(headers={STEP: "plain"}, verify=False) as client:
            assert client.chat("llama", MESSAGES).message.content == PLAIN
