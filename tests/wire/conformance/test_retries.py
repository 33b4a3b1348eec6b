"""What the SDKs of OpenAI and Anthropic try again, and how a fault is scoped to one of their tries."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import anthropic
import openai
import pytest
from msgspec import Struct

from tests.wire.conformance.answers import PLAIN, QUESTION, STEP

pytestmark = pytest.mark.xdist_group("sdks")

MESSAGES = [{"role": "user", "content": QUESTION}]
FAR_AWAY = "Fri, 31 Dec 2100 23:59:59 GMT"


class Vendor(Struct):
    """An SDK that asks a plain question at an address."""

    ask: Callable[..., Any]
    error: type[Exception]
    connection_error: type[Exception]


def ask_openai(pooled, url, *, max_retries=2, stream=False):
    client = pooled.with_options(base_url=f"{url}/v1", max_retries=max_retries)
    answer = client.chat.completions.create(model="m", messages=MESSAGES, stream=stream, extra_headers={STEP: "plain"})
    if not stream:
        return answer.choices[0].message.content
    return "".join(chunk.choices[0].delta.content or "" for chunk in answer)


def ask_anthropic(pooled, url, *, max_retries=2, stream=False):
    client = pooled.with_options(base_url=url, max_retries=max_retries)
    answer = client.messages.create(
        model="m", max_tokens=9, messages=MESSAGES, stream=stream, extra_headers={STEP: "plain"}
    )
    if not stream:
        return answer.content[0].text
    return "".join(event.delta.text for event in answer if event.type == "content_block_delta")


@pytest.fixture(scope="module")
def openai_sdk() -> Iterator[Vendor]:
    with openai.OpenAI(base_url="http://unused", api_key="k") as pooled:
        yield Vendor(lambda *a, **k: ask_openai(pooled, *a, **k), openai.APIStatusError, openai.APIConnectionError)


@pytest.fixture(scope="module")
def anthropic_sdk() -> Iterator[Vendor]:
    with anthropic.Anthropic(base_url="http://unused", api_key="k") as pooled:
        yield Vendor(
            lambda *a, **k: ask_anthropic(pooled, *a, **k), anthropic.APIStatusError, anthropic.APIConnectionError
        )


@pytest.fixture(params=["openai_sdk", "anthropic_sdk"])
def sdk(request) -> Vendor:
    return request.getfixturevalue(request.param)


def test_a_fault_of_the_first_try_is_recovered_from(sdk, start):
    run = start("attempt=1: http_error 500")
    assert sdk.ask(run.url) == PLAIN
    assert [(call.attempt, call.status, call.fault) for call in run.session.calls] == [
        (1, 500, "http_error"),
        (2, 200, None),
    ]


def test_a_fault_of_the_second_try_needs_a_first_that_failed(sdk, start):
    run = start("attempt=2: http_error 500")
    assert sdk.ask(run.url) == PLAIN
    assert run.tries == 1
    assert [str(line) for line in run.session.unfired()] == ["attempt=2: http_error 500"]


def test_tries_are_distinguished_from_calls(sdk, start):
    run = start("call=2 attempt=1: http_error 500", "call=2 attempt=2: http_error 529")
    assert [sdk.ask(run.url), sdk.ask(run.url)] == [PLAIN, PLAIN]
    assert [(call.attempt, call.status) for call in run.session.calls] == [(1, 200), (1, 500), (2, 529), (3, 200)]


def test_a_stream_is_tried_again_before_it_begins(sdk, start):
    run = start("attempt=1: http_error 503")
    assert sdk.ask(run.url, stream=True) == PLAIN
    assert run.tries == 2


def test_a_client_that_is_told_to_wait_a_moment_does_so_only(sdk, start):
    run = start("everywhere: http_error 429")
    started_s = time.monotonic()
    with pytest.raises(sdk.error) as caught:
        sdk.ask(run.url, max_retries=4)
    assert caught.value.response.headers["retry-after-ms"] == "1"
    assert run.tries == 5
    assert time.monotonic() - started_s < 3.0  # its own four waits would be 5.6 s and more


@pytest.mark.parametrize("headers", ["headers.Retry-After=0.01", "headers.retry-after-ms=5"])
def test_how_long_to_wait_may_be_given_by_the_fault(sdk, start, headers):
    run = start(f"attempt=1: http_error 429 {headers}")
    assert sdk.ask(run.url) == PLAIN
    assert run.tries == 2


def test_the_server_may_ask_for_another_try_of_what_is_never_tried_again(sdk, start):
    run = start("attempt=1: http_error 400 headers.x-should-retry=true")
    assert sdk.ask(run.url) == PLAIN
    assert run.tries == 2


@pytest.mark.parametrize("wait", ["121", f'"{FAR_AWAY}"'])
def test_openai_gives_up_if_it_is_to_wait_longer_than_two_minutes(openai_sdk, start, wait):
    run = start(f"everywhere: http_error 429 headers.Retry-After={wait}")
    with pytest.raises(openai.RateLimitError):
        openai_sdk.ask(run.url)
    assert run.tries == 1


def test_a_whole_answer_that_breaks_off_is_tried_again(sdk, start):
    run = start("attempt=1: stream_truncate raise=cut")
    assert sdk.ask(run.url, max_retries=1) == PLAIN
    assert run.tries == 2


def test_a_stream_that_breaks_off_is_not_tried_again(sdk, start):
    run = start("attempt=1: stream_truncate 4 raise=cut")
    with pytest.raises(Exception, match=r"Connection error|incomplete chunked read"):
        sdk.ask(run.url, stream=True)
    assert run.tries == 1
