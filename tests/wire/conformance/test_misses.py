"""A call that the recording has no answer for: every SDK raises at once, and says which entry was nearest."""

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import anthropic
import ollama
import openai
import orjson
import pytest
from google import genai
from google.genai import errors, types
from msgspec import Struct

from offbook import serving
from offbook.messages import Request
from offbook.recording.match.fingerprint import identify
from offbook.wire.server.wire_server import WireServer

pytestmark = pytest.mark.xdist_group("sdks")

RECORDED = Request(({"role": "user", "content": "Good morning, all."},), "model-1")
ASKED = "Good evening, all."
MESSAGES = [{"role": "user", "content": ASKED}]


class Client(Struct, frozen=True):
    """An SDK that would try again if it might, a call of it, and the error that it is to raise."""

    at: Callable[[str], Any]
    ask: Callable[[Any], object]
    error: type[Exception]


def openai_at(url):
    return openai.OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=3)


def anthropic_at(url):
    return anthropic.Anthropic(base_url=url, api_key="k", max_retries=3)


def google_at(url):
    retries = types.HttpRetryOptions(attempts=4, initial_delay=0.001, max_delay=0.001)
    return genai.Client(api_key="k", http_options=types.HttpOptions(base_url=url, retry_options=retries))


def ollama_at(url):
    return ollama.Client(host=url, verify=False)


def ask_chat(client, **more):
    return client.chat.completions.create(model="model-1", messages=MESSAGES, **more)


def ask_responses(client):
    return client.responses.create(model="model-1", input=ASKED)


def ask_anthropic(client, **more):
    return client.messages.create(model="model-1", max_tokens=9, messages=MESSAGES, **more)


CLIENTS = {
    "openai chat": Client(openai_at, ask_chat, openai.UnprocessableEntityError),
    "openai chat, streamed": Client(openai_at, partial(ask_chat, stream=True), openai.UnprocessableEntityError),
    "openai responses": Client(openai_at, ask_responses, openai.UnprocessableEntityError),
    "anthropic": Client(anthropic_at, ask_anthropic, anthropic.UnprocessableEntityError),
    "anthropic, streamed": Client(
        anthropic_at, partial(ask_anthropic, stream=True), anthropic.UnprocessableEntityError
    ),
    "google": Client(
        google_at, lambda client: client.models.generate_content(model="model-1", contents=ASKED), errors.ClientError
    ),
    "google, streamed": Client(
        google_at,
        lambda client: list(client.models.generate_content_stream(model="model-1", contents=ASKED)),
        errors.ClientError,
    ),
    "ollama": Client(ollama_at, lambda client: client.chat("model-1", MESSAGES), ollama.ResponseError),
    "ollama, streamed": Client(
        ollama_at, lambda client: list(client.chat("model-1", MESSAGES, stream=True)), ollama.ResponseError
    ),
}


@pytest.fixture(scope="module")
def strict() -> Iterator[WireServer]:
    request_hash, fields = identify(RECORDED)
    entry = {"content": "Hello.", "request_hash": request_hash, "request": orjson.loads(fields)}
    with serving(responses={"_version": 2, "greeting": entry}, strict=True) as running:
        yield running


@pytest.mark.parametrize("name", CLIENTS)
def test_a_miss_is_raised_once_with_the_nearest_entry_and_the_difference(strict, name):
    sdk, place = CLIENTS[name], re.sub(r"\W+", "-", name)
    session = strict.start_session(place)
    with sdk.at(strict.session_url(place)) as client, pytest.raises(sdk.error, match="greeting") as caught:
        sdk.ask(client)
    assert "Good morning, all." in str(caught.value)
    assert [(call.status, call.outcome) for call in session.calls] == [(422, "missed")]
    assert [(miss.kind, miss.call) for miss in session.misses] == [("missing", 1)]


def test_embeddings_are_missed_too_if_they_were_not_recorded(strict):
    session = strict.start_session("embeddings")
    message = "POST /v1/embeddings is not in the recording"
    client = openai_at(strict.session_url("embeddings"))
    with client, pytest.raises(openai.UnprocessableEntityError, match=message):
        client.embeddings.create(model="m", input=ASKED)
    assert len(session.calls) == 1


def test_a_request_that_is_none_is_refused_in_the_vendors_shape(strict):
    session = strict.start_session("wrong")
    message = "is not a request that anthropic accepts"
    client = anthropic_at(strict.session_url("wrong"))
    with client, pytest.raises(anthropic.UnprocessableEntityError, match=message):
        client.messages.create(model="m", max_tokens=9, messages="no list")
    assert len(session.calls) == 1
