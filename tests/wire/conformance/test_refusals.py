"""A request that its vendor would refuse: the SDK raises its own error for that, once, in the vendor's words."""

from collections.abc import Callable, Iterator
from typing import Any

import anthropic
import boto3
import botocore.exceptions
import openai
import pytest
from botocore.config import Config
from google import genai
from google.genai import errors, types
from msgspec import Struct

from offbook import serving
from offbook.codecs.rules import rules_of
from offbook.wire.server.wire_server import WireServer
from tests.codecs.rules.requests import (
    CONFIG,
    PATHS,
    REFUSED,
    Case,
    asks,
    chat,
    converse,
    converse_uses,
    messages,
    said,
    uses,
)

pytestmark = pytest.mark.xdist_group("sdks")


class Client(Struct, frozen=True):
    """A call of an SDK with a tool call that has no result, the error that it is to raise, and words of it."""

    ask: Callable[[str], object]
    error: type[Exception]
    words: str


def ask_chat(url: str, **more: Any) -> object:
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=3)
    return client.chat.completions.create(**chat(said("Hi"), asks("c1"), said("Go on")), **more)


def ask_responses(url: str) -> object:
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=3)
    call: Any = {"type": "function_call", "call_id": "c1", "name": "pay", "arguments": "{}"}
    return client.responses.create(model="gpt-5", input=[said("Hi"), call])


def ask_anthropic(url: str, **more: Any) -> object:
    client = anthropic.Anthropic(base_url=url, api_key="k", max_retries=3)
    return client.messages.create(**messages(said("Hi"), uses("t1"), said("Go on")), **more)


def ask_google(url: str) -> object:
    retries = types.HttpRetryOptions(attempts=4, initial_delay=0.001, max_delay=0.001)
    client = genai.Client(api_key="k", http_options=types.HttpOptions(base_url=url, retry_options=retries))
    called = types.Content(role="model", parts=[types.Part.from_function_call(name="pay", args={})])
    hi = types.Content(role="user", parts=[types.Part(text="Hi")])
    return client.models.generate_content(model="gemini-2.5-pro", contents=[hi, called, hi])


def bedrock(url: str, **config: Any) -> Any:
    retries = {"total_max_attempts": 4, "mode": "standard"}
    return boto3.client(
        "bedrock-runtime",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="k",
        aws_secret_access_key="k",
        config=Config(retries=retries, **config),
    )


def ask_bedrock(url: str) -> object:
    hi = said([{"text": "Hi"}])
    return bedrock(url).converse(modelId="us.amazon.nova-pro-v1:0", **converse(hi, converse_uses("t1"), hi, **CONFIG))


CLIENTS = {
    "openai chat": Client(ask_chat, openai.BadRequestError, "did not have response messages: c1"),
    "openai chat, streamed": Client(
        lambda url: ask_chat(url, stream=True), openai.BadRequestError, "did not have response messages: c1"
    ),
    "openai responses": Client(ask_responses, openai.BadRequestError, "No tool output found for function call c1."),
    "anthropic": Client(ask_anthropic, anthropic.BadRequestError, "without `tool_result` blocks immediately after: t1"),
    "anthropic, streamed": Client(
        lambda url: ask_anthropic(url, stream=True), anthropic.BadRequestError, "immediately after: t1"
    ),
    "google": Client(ask_google, errors.ClientError, "number of function response parts is equal"),
    "bedrock": Client(ask_bedrock, botocore.exceptions.ClientError, "Expected toolResult blocks at messages.2.content"),
}


@pytest.fixture(scope="module")
def server() -> Iterator[WireServer]:
    with serving(responses={}, strict=False) as running:
        yield running


@pytest.mark.parametrize("name", CLIENTS)
def test_an_sdk_raises_its_own_error_once(name, server):
    session, client = server.start_session(name), CLIENTS[name]
    with pytest.raises(client.error) as caught:
        client.ask(server.session_url(name))
    assert client.words in str(caught.value)
    assert [(call.outcome, call.status) for call in session.calls] == [("missed", 400)]


def post(case: Case, url: str) -> object:
    """Send a request as it is with the SDK of its vendor, past its own checks of parameters where it has a way."""
    path, body = PATHS[case.protocol], case.body
    if case.protocol in ("openai_chat", "openai_responses"):
        client = openai.OpenAI(base_url=url, api_key="k", max_retries=0)
        return client.post(path, body=body, cast_to=object)
    if case.protocol == "anthropic":
        return anthropic.Anthropic(base_url=url, api_key="k", max_retries=0).post(path, body=body, cast_to=object)
    if case.protocol == "bedrock":
        return bedrock(url, parameter_validation=False).converse(modelId="us.amazon.nova-pro-v1:0", **body)
    model, config = (
        body.get("model", "gemini-2.5-pro"),
        {name: body[name] for name in ("tools", "toolConfig") & body.keys()},
    )
    client = genai.Client(api_key="k", http_options=types.HttpOptions(base_url=url))
    return client.models.generate_content(model=model, contents=body["contents"], config=config)


ERRORS = {
    "openai_chat": openai.BadRequestError,
    "openai_responses": openai.BadRequestError,
    "anthropic": anthropic.BadRequestError,
    "gemini": errors.ClientError,
    "bedrock": botocore.exceptions.ClientError,
}
STOPPED_BY_SDKS = ("contents-required", "known-keywords")
"""Rules of Gemini that its SDK for Python has as well."""

KINDS = [
    case
    for case in REFUSED
    if case.rule not in STOPPED_BY_SDKS
    and not next(rule.is_about_answers for rule in rules_of(case.protocol) or () if rule.name == case.rule)
]


@pytest.mark.parametrize("case", KINDS, ids=str)
def test_an_sdk_raises_its_own_error_for_every_kind(case, server):
    with pytest.raises(ERRORS[case.protocol]) as caught:
        post(case, server.session_url("every"))
    assert case.words.replace('"', "'") in str(caught.value).replace('\\"', "'").replace('"', "'")


def test_the_errors_of_sdks_name_the_parameter_and_the_kind(server):
    with pytest.raises(openai.BadRequestError) as of_openai:
        ask_chat(server.session_url("kinds"))
    assert (of_openai.value.param, of_openai.value.type) == ("messages.[2].role", "invalid_request_error")
    with pytest.raises(botocore.exceptions.ClientError) as of_aws:
        ask_bedrock(server.session_url("kinds"))
    assert of_aws.value.response["Error"]["Code"] == "ValidationException"
    assert type(of_aws.value).__name__ == "ValidationException"


def test_lenient_requests_are_answered():
    with serving(responses={}, strict=False, lenient_requests=True) as running:
        assert ask_chat(running.url)
        assert ask_anthropic(running.url)
