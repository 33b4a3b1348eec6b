"""Google's SDK as a client."""

from collections.abc import Iterator

import pytest
from google import genai
from google.genai import errors, types

from tests.wire.conformance.answers import ODD_TEXT, PLAIN, QUESTION, REASONING, STEP, Weather

pytestmark = pytest.mark.xdist_group("sdks")

TOOLS = [types.Tool(function_declarations=[types.FunctionDeclaration(name=name) for name in ("weather", "clock")])]


@pytest.fixture(scope="module")
def pooled() -> Iterator[genai.Client]:
    with genai.Client(api_key="k") as client:
        yield client


@pytest.fixture
def models(pooled):
    return pooled.models


@pytest.fixture
def at(run):
    """The arguments of a call that `step` answers."""

    def asking(step, *, contents=QUESTION, retries=None, **config):
        options = types.HttpOptions(base_url=run.url, headers={STEP: step}, retry_options=retries)
        return {
            "model": "gemini-3",
            "contents": contents,
            "config": types.GenerateContentConfig(http_options=options, **config),
        }

    return asking


class TestWhole:
    def test_an_answer_has_its_text_model_usage_and_id(self, models, at):
        answer = models.generate_content(**at("plain"))
        assert answer.text == PLAIN
        assert answer.candidates[0].finish_reason.name == "STOP"
        assert answer.model_version == "model-1"
        usage = answer.usage_metadata
        assert usage.prompt_token_count == 7
        assert usage.candidates_token_count == 5
        assert usage.total_token_count == 12
        assert usage.cached_content_token_count == 3
        assert answer.response_id != models.generate_content(**at("plain", contents="And you?")).response_id

    @pytest.mark.parametrize(
        ("step", "reason"), [("cut", "MAX_TOKENS"), ("filtered", "SAFETY"), ("tools", "STOP"), ("empty", "STOP")]
    )
    def test_it_ends_for_the_recorded_reason(self, models, at, step, reason):
        assert models.generate_content(**at(step)).candidates[0].finish_reason.name == reason

    def test_odd_text_arrives_as_it_is(self, models, at):
        assert models.generate_content(**at("odd")).text == ODD_TEXT

    def test_thoughts_are_parts_before_the_text(self, models, at):
        answer = models.generate_content(**at("thinking"))
        thought, said = answer.candidates[0].content.parts
        assert thought.thought
        assert thought.text == REASONING
        assert said.text == "Forty-two."
        assert answer.usage_metadata.thoughts_token_count == 4

    def test_tools_are_asked_for_in_parallel(self, models, at):
        calls = models.generate_content(**at("tools", tools=TOOLS)).function_calls
        assert [(call.id, call.name, call.args) for call in calls] == [
            ("call_a", "weather", {"city": "Oslo"}),
            ("call_b", "clock", {}),
        ]

    def test_functions_are_called_and_their_results_sent_back(self, models, at, run):
        def weather(city: str) -> str:
            """What the weather is like."""
            return f"fine in {city}"

        def clock() -> str:
            """What the time is."""
            return "noon"

        limit = types.AutomaticFunctionCallingConfig(maximum_remote_calls=2)
        models.generate_content(**at("tools", tools=[weather, clock], automatic_function_calling=limit))
        _, turn, *answered = run.session.calls[-1].request.messages
        assert [call["id"] for call in turn["tool_calls"]] == [result["tool_call_id"] for result in answered]
        assert [result["content"] for result in answered] == ["fine in Oslo", "noon"]

    def test_a_schema_is_parsed(self, models, at):
        wish = {"response_mime_type": "application/json", "response_schema": Weather}
        assert models.generate_content(**at("json", **wish)).parsed == Weather(city="Oslo", celsius=21)

    def test_a_chat_remembers(self, pooled, at, run):
        chat = pooled.chats.create(model="gemini-3", config=at("plain")["config"])
        chat.send_message("One")
        chat.send_message("Two")
        spoken = [message["content"] for message in run.session.calls[-1].request.messages]
        assert spoken == ["One", PLAIN, "Two"]

    @pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning")
    async def test_the_async_client_reads_the_same(self, run):
        async with genai.Client(api_key="k", http_options=types.HttpOptions(base_url=run.url)).aio as client:
            answer = await client.models.generate_content(model="m", contents=QUESTION, config=stepped("plain"))
        assert answer.text == PLAIN


def stepped(step):
    return types.GenerateContentConfig(http_options=types.HttpOptions(headers={STEP: step}))


class TestStreams:
    def test_text_comes_word_by_word_and_the_last_frame_counts_tokens(self, models, at):
        *frames, last = models.generate_content_stream(**at("plain"))
        assert "".join(frame.text for frame in frames) == PLAIN
        assert len(frames) == len(PLAIN.split())
        assert last.candidates[0].finish_reason.name == "STOP"
        assert last.usage_metadata.total_token_count == 12

    def test_calls_come_whole_one_a_frame(self, models, at):
        frames = list(models.generate_content_stream(**at("tools")))
        calls = [[(call.name, call.args) for call in frame.function_calls or ()] for frame in frames]
        assert [call for call in calls if call] == [[("weather", {"city": "Oslo"})], [("clock", {})]]

    def test_thoughts_come_before_the_text(self, models, at):
        frames = list(models.generate_content_stream(**at("thinking")))
        parts = [part for frame in frames for part in frame.candidates[0].content.parts]
        assert [part.text for part in parts if part.thought] == ["Let me think.", " Twice."]
        assert "".join(part.text for part in parts if not part.thought) == "Forty-two."

    def test_odd_text_arrives_as_it_is(self, models, at):
        assert "".join(frame.text or "" for frame in models.generate_content_stream(**at("odd"))) == ODD_TEXT

    @pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning")
    async def test_the_async_client_reads_the_same(self, run):
        async with genai.Client(api_key="k", http_options=types.HttpOptions(base_url=run.url)).aio as client:
            stream = await client.models.generate_content_stream(model="m", contents=QUESTION, config=stepped("plain"))
            assert "".join([frame.text async for frame in stream]) == PLAIN


class TestRetries:
    def test_they_are_off_unless_asked_for(self, pooled, start):
        run = start("everywhere: http_error 503")
        options = types.HttpOptions(base_url=run.url)
        with pytest.raises(errors.ServerError) as caught:
            pooled.models.generate_content(
                model="m", contents=QUESTION, config=types.GenerateContentConfig(http_options=options)
            )
        assert caught.value.code == 503
        assert caught.value.status == "UNAVAILABLE"
        assert run.tries == 1

    def test_asked_for_they_do_not_wait_as_told(self, start):
        run = start("attempt=1: http_error 429 headers.Retry-After=3600")
        retries = types.HttpRetryOptions(attempts=2, initial_delay=0.001, max_delay=0.001)
        options = types.HttpOptions(base_url=run.url, retry_options=retries)
        with genai.Client(api_key="k", http_options=options) as client:
            assert client.models.generate_content(model="m", contents=QUESTION, config=stepped("plain")).text == PLAIN
        assert [call.attempt for call in run.session.calls] == [1, 2]


class TestBeside:
    def test_tokens_are_counted(self, models, run):
        config = types.CountTokensConfig(http_options=types.HttpOptions(base_url=run.url))
        assert models.count_tokens(model="m", contents=QUESTION, config=config).total_tokens > 0

    def test_embeddings_come_for_each_content(self, models, run):
        options = types.HttpOptions(base_url=run.url)
        config = types.EmbedContentConfig(http_options=options, output_dimensionality=8)
        answer = models.embed_content(model="m", contents=["One", "Two"], config=config)
        assert [len(each.values) for each in answer.embeddings] == [8, 8]

    def test_models_are_those_of_the_recording(self, models, run):
        config = types.ListModelsConfig(http_options=types.HttpOptions(base_url=run.url))
        assert [model.name for model in models.list(config=config)] == ["models/model-1"]

    def test_the_variables_of_the_server_lead_there(self, server, monkeypatch):
        for name, value in server.env.items():
            monkeypatch.setenv(name, value)
        monkeypatch.delenv("GOOGLE_API_KEY")
        with genai.Client() as client:
            answer = client.models.generate_content(model="m", contents=QUESTION, config=stepped("plain"))
        assert answer.text == PLAIN
