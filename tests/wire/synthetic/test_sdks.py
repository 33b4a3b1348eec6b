"""The vendors' own SDKs read what the endpoints beside the model calls answer."""

from collections.abc import Iterator
from datetime import UTC, datetime
from urllib.parse import urlsplit

import anthropic
import httpx
import ollama
import openai
import orjson
import pytest
from google import genai
from google.genai import errors, types

from offbook.errors import RequestError
from offbook.wire.request import route_of
from offbook.wire.synthetic.answers import models_answer, token_count_answer
from offbook.wire.synthetic.embeddings import embeddings_answer, unit_vector
from tests.servers.loopback import LoopbackServer, ServerCall

HELLO = b"hello"
WORLD = b"world"


MODELS = ("first", "second")


def answer_side_call(call: ServerCall) -> None:
    """Answer the endpoints beside the model calls; what is not there is a 404, what is not right a 400."""
    path, headers = urlsplit(call.path).path, {name.lower(): value for name, value in call.headers.items()}
    route, body = route_of(call.command, path, headers), orjson.loads(call.body or b"{}")
    try:
        if route.operation == "embed":
            answer = embeddings_answer(route.vendor, path, body)
        elif route.operation == "count_tokens":
            answer = token_count_answer(route.vendor, body)
        else:
            answer = models_answer(route.vendor, path, MODELS, body=body)
    except RequestError as error:
        call.whole(orjson.dumps(route.any_codec.encode_error(400, str(error))), status=400)
        return
    if answer is None:
        call.whole(orjson.dumps(route.any_codec.encode_error(404, "no such model")), status=404)
    else:
        call.whole(orjson.dumps(answer))


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    with LoopbackServer(answer_side_call) as running:
        yield running


@pytest.fixture
def openai_client(server) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="k", max_retries=0) as client:
        yield client


@pytest.fixture
def anthropic_client(server) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=server.url, api_key="k", max_retries=0) as client:
        yield client


@pytest.fixture
def google_client(server) -> Iterator[genai.Client]:
    with genai.Client(api_key="k", http_options=types.HttpOptions(base_url=server.url)) as client:
        yield client


@pytest.fixture
def ollama_client(server) -> Iterator[ollama.Client]:
    with ollama.Client(host=server.url) as client:
        yield client


class TestEmbeddings:
    def test_openai_unpacks_the_base64_that_it_asks_for(self, openai_client):
        answer = openai_client.embeddings.create(model="text-embedding-3-small", input=["hello", "world"])
        assert [each.embedding for each in answer.data] == [unit_vector(HELLO, 1536), unit_vector(WORLD, 1536)]
        assert [each.index for each in answer.data] == [0, 1]
        assert answer.model == "text-embedding-3-small"
        assert answer.usage.prompt_tokens == 4

    def test_openai_reads_floats_of_the_dimensions_it_asks_for(self, openai_client):
        answer = openai_client.embeddings.create(model="m", input="hello", encoding_format="float", dimensions=5)
        assert answer.data[0].embedding == unit_vector(HELLO, 5)

    def test_openai_may_send_token_ids(self, openai_client):
        one = openai_client.embeddings.create(model="m", input=[1, 2, 3])
        two = openai_client.embeddings.create(model="m", input=[[1, 2, 3], [4]])
        assert one.data[0].embedding == two.data[0].embedding != two.data[1].embedding
        assert one.usage.total_tokens == 3
        assert two.usage.total_tokens == 4

    def test_openai_is_told_of_bad_input_in_its_own_shape(self, openai_client):
        with pytest.raises(openai.BadRequestError, match="input: expected"):
            openai_client.embeddings.create(model="m", input="")

    def test_google_reads_a_batch(self, google_client):
        answer = google_client.models.embed_content(model="gemini-embedding-001", contents=["hello", "world"])
        assert [each.values for each in answer.embeddings] == [unit_vector(HELLO, 3072), unit_vector(WORLD, 3072)]
        assert answer.usage_metadata.prompt_token_count == 4

    def test_google_gets_the_dimensions_it_asks_for(self, google_client):
        config = types.EmbedContentConfig(output_dimensionality=7, task_type="RETRIEVAL_QUERY")
        answer = google_client.models.embed_content(model="m", contents="hello", config=config)
        assert [each.values for each in answer.embeddings] == [unit_vector(HELLO, 7)]

    def test_google_is_told_of_bad_input_in_its_own_shape(self, google_client):
        with pytest.raises(errors.ClientError, match=r"requests\[0\]\.outputDimensionality"):
            google_client.models.embed_content(
                model="m", contents="hello", config=types.EmbedContentConfig(output_dimensionality=10_001)
            )

    def test_ollama_reads_embeddings(self, ollama_client):
        answer = ollama_client.embed(model="nomic-embed-text", input=["hello", "world"])
        assert answer.embeddings == [unit_vector(HELLO, 768), unit_vector(WORLD, 768)]
        assert answer.model == "nomic-embed-text"
        assert answer.prompt_eval_count == 4
        assert ollama_client.embed(model="m", input="hello", dimensions=3).embeddings == [unit_vector(HELLO, 3)]

    def test_ollama_reads_the_embedding_of_the_older_endpoint(self, ollama_client):
        assert ollama_client.embeddings(model="m", prompt="hello").embedding == unit_vector(HELLO, 768)

    def test_ollama_is_told_of_bad_input_in_its_own_shape(self, ollama_client):
        with pytest.raises(ollama.ResponseError, match="input: expected") as caught:
            ollama_client.embed(model="m", input=[])
        assert caught.value.status_code == 400


class TestModels:
    def test_openai_lists_and_retrieves(self, openai_client):
        assert [model.id for model in openai_client.models.list()] == ["first", "second"]
        model = openai_client.models.retrieve("second")
        assert model.id == "second"
        assert model.object == "model"
        assert model.created == 0
        assert model.owned_by == "offbook"

    def test_openai_finds_no_model_that_is_not_there(self, openai_client):
        with pytest.raises(openai.NotFoundError):
            openai_client.models.retrieve("third")

    def test_anthropic_lists_and_retrieves(self, anthropic_client):
        page = anthropic_client.models.list(limit=1)
        assert [model.id for model in page] == ["first", "second"]
        assert page.first_id == "first"
        assert page.last_id == "second"
        assert not page.has_more
        model = anthropic_client.models.retrieve("second")
        assert model.id == "second"
        assert model.display_name == "second"
        assert model.lifecycle == "active"
        assert model.created_at == datetime(1970, 1, 1, tzinfo=UTC)
        assert model.max_input_tokens is None

    def test_anthropic_finds_no_model_that_is_not_there(self, anthropic_client):
        with pytest.raises(anthropic.NotFoundError):
            anthropic_client.models.retrieve("third")

    def test_google_lists_and_retrieves(self, google_client):
        assert [model.name for model in google_client.models.list()] == ["models/first", "models/second"]
        model = google_client.models.get(model="second")
        assert model.name == "models/second"
        assert model.display_name == "second"
        assert "generateContent" in model.supported_actions

    def test_google_finds_no_model_that_is_not_there(self, google_client):
        with pytest.raises(errors.ClientError) as caught:
            google_client.models.get(model="third")
        assert caught.value.code == 404

    def test_ollama_lists_what_there_is_and_what_is_loaded(self, ollama_client):
        listed, loaded = ollama_client.list().models, ollama_client.ps().models
        assert [model.model for model in listed] == ["first:latest", "second:latest"]
        assert [model.name for model in loaded] == ["first:latest", "second:latest"]
        assert listed[0].digest == loaded[0].digest != listed[1].digest
        assert loaded[0].expires_at > datetime(2100, 1, 1, tzinfo=UTC)

    def test_ollama_shows_a_model_that_can_call_tools(self, ollama_client):
        shown = ollama_client.show("second")
        assert shown.capabilities == ["completion", "tools"]
        architecture = shown.modelinfo["general.architecture"]
        assert shown.modelinfo[f"{architecture}.context_length"] == 131_072
        assert shown.details.family == architecture

    def test_ollama_finds_no_model_that_is_not_there(self, ollama_client):
        with pytest.raises(ollama.ResponseError) as caught:
            ollama_client.show("third")
        assert caught.value.status_code == 404

    def test_ollama_reports_its_version(self, server):
        assert httpx.get(f"{server.url}/api/version").json() == {"version": "0.12.0"}


class TestTokenCounts:
    def test_anthropic_counts(self, anthropic_client):
        counted = anthropic_client.messages.count_tokens(model="m", messages=[{"role": "user", "content": "x" * 40}])
        assert counted.input_tokens == 14

    def test_google_counts(self, google_client):
        assert google_client.models.count_tokens(model="m", contents="x" * 40).total_tokens == 14

    def test_openai_counts(self, openai_client):
        counted = openai_client.responses.input_tokens.count(model="m", input="x" * 40, instructions="y" * 8)
        assert counted.object == "response.input_tokens"
        assert counted.input_tokens == 16
