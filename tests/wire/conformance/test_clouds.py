"""Azure's and Vertex AI's clients: they ask for the models of others under paths of their own."""

import json

import anthropic
import openai
import pytest
from google import genai
from google.genai import types
from google.oauth2.credentials import Credentials

from offbook import serving
from offbook.messages import Response, deltas_of
from offbook.vendors import codec_of
from offbook.wire.request import HttpRequest, parse_request
from tests.servers.loopback import LoopbackServer
from tests.wire.conformance.answers import PLAIN, QUESTION, STEP

pytestmark = pytest.mark.xdist_group("sdks")

MESSAGES = [{"role": "user", "content": QUESTION}]
HEADERS = {STEP: "plain"}
ANSWER = Response(PLAIN, "m", finish_reason="stop")


def azure(url):
    return openai.AzureOpenAI(
        azure_endpoint=url, api_key="a-key", api_version="2024-10-21", max_retries=0, default_headers=HEADERS
    )


def azure_v1(url):
    return openai.OpenAI(base_url=f"{url}/openai/v1/", api_key="a-key", max_retries=0, default_headers=HEADERS)


def ask_chat(client, *, stream):
    with client:
        answer = client.chat.completions.create(model="my-gpt", messages=MESSAGES, stream=stream)
        if not stream:
            return answer.choices[0].message.content
        return "".join(chunk.choices[0].delta.content or "" for chunk in answer if chunk.choices)


def ask_responses(client, *, stream):
    with client:
        answer = client.responses.create(model="my-gpt", input=QUESTION, stream=stream)
        if not stream:
            return answer.output_text
        return "".join(event.delta for event in answer if event.type == "response.output_text.delta")


def ask_gemini(url, *, stream):
    options = types.HttpOptions(base_url=url, headers=HEADERS)
    fields = {"project": "p", "location": "europe-west4", "credentials": Credentials("a-token")}
    with genai.Client(vertexai=True, http_options=options, **fields) as client:
        if stream:
            pieces = client.models.generate_content_stream(model="gemini-2.5-pro", contents=QUESTION)
            return "".join(piece.text or "" for piece in pieces)
        return client.models.generate_content(model="gemini-2.5-pro", contents=QUESTION).text


def ask_claude(url, *, stream):
    fields = {"project_id": "p", "region": "europe-west4", "access_token": "a-token", "max_retries": 0}
    with anthropic.AnthropicVertex(base_url=f"{url}/v1", default_headers=HEADERS, **fields) as client:
        answer = client.messages.create(model="claude@20250101", max_tokens=9, messages=MESSAGES, stream=stream)
        if not stream:
            return answer.content[0].text
        return "".join(event.delta.text for event in answer if event.type == "content_block_delta")


CLIENTS = {
    "azure, chat": (lambda url, **k: ask_chat(azure(url), **k), "azure", "openai_chat", "my-gpt"),
    "azure, responses": (lambda url, **k: ask_responses(azure(url), **k), "azure", "openai_responses", "my-gpt"),
    "azure v1": (lambda url, **k: ask_chat(azure_v1(url), **k), "azure", "openai_chat", "my-gpt"),
    "vertex, gemini": (ask_gemini, "vertex", "gemini", "gemini-2.5-pro"),
    "vertex, claude": (ask_claude, "vertex", "anthropic", "claude@20250101"),
}
every_client = pytest.mark.parametrize(("ask", "vendor", "protocol", "model"), CLIENTS.values(), ids=list(CLIENTS))
both_ways = pytest.mark.parametrize("stream", [False, True])


@every_client
@both_ways
def test_a_client_of_a_cloud_is_answered(run, ask, vendor, protocol, model, stream):
    assert ask(run.url, stream=stream) == PLAIN
    [call] = run.session.calls
    assert call.vendor == vendor
    assert call.model == model
    assert call.request.messages == tuple(MESSAGES)


@every_client
@both_ways
def test_what_it_asks_is_recorded_with_its_own_path_and_key_and_comes_back(
    tmp_path, ask, vendor, protocol, model, stream
):
    def answer(call):
        codec = codec_of(protocol)
        if stream:
            call.stream(*codec.encode_stream(ANSWER, deltas_of(ANSWER)), content_type=codec.stream_type)
        else:
            call.whole(json.dumps(codec.encode_response(ANSWER)).encode())

    path = tmp_path / "run.json"
    with LoopbackServer(answer) as upstream, serving(record=path, upstreams={vendor: upstream.url}) as server:
        assert ask(server.url, stream=stream) == PLAIN
    [call] = upstream.calls
    sent = " ".join(call.headers.values())
    assert "a-key" in sent or "a-token" in sent
    if vendor == "azure":
        assert call.path.startswith("/openai/")
        assert ("api-version=2024-10-21" in call.path) == ("/v1/" not in call.path)
    else:
        assert "/projects/p/locations/europe-west4/publishers/" in call.path
    assert "a-key" not in path.read_text()
    assert "a-token" not in path.read_text()
    with serving(path) as server:
        assert ask(server.url, stream=stream) == PLAIN
        assert server.misses == []
        assert [each.status for each in server.calls] == [200]


def test_azure_needs_an_address_when_it_is_recorded(tmp_path):
    with (
        serving(record=tmp_path / "run.json") as server,
        pytest.raises(openai.BadRequestError, match="AZURE_OPENAI_ENDPOINT"),
    ):
        ask_chat(azure(server.url), stream=False)


def test_synthetic_embeddings_are_those_of_openai(run):
    with azure(run.url) as client:
        assert len(client.embeddings.create(model="e", input="x", dimensions=8).data[0].embedding) == 8


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("GET", "/models", {"x-amz-date": "d"}),
        ("GET", "/v1/projects/p/locations/l/models", {}),
        ("GET", "/openai/models", {}),
        ("POST", "/openai/deployments/x/audio/speech", {}),
    ],
)
def test_what_a_cloud_has_beside_models_is_plain_http(run, method, path, headers):
    parsed = parse_request(HttpRequest(method, path, "", headers, b""))
    assert parsed.request is None
    assert parsed.route.protocol == "http"
    answer = run.session.answer(run.session.start(HttpRequest(method, path, "", headers, b"")))
    assert answer.status in (200, 400, 404)
