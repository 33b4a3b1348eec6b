"""Answers that were recorded over HTTP: the SDK reads the very bytes, and faults count the events in them."""

from collections.abc import Iterator

import openai
import pytest

from offbook import serving
from offbook.messages import Response, TextDelta
from offbook.vendors import codec_of
from offbook.wire.server.wire_server import WireServer
from tests.wire.conformance.answers import PLAIN, QUESTION

pytestmark = pytest.mark.xdist_group("sdks")

WORDS = [TextDelta(f"{word} ") for word in PLAIN.split()]
BODY = b"".join(codec_of("openai_chat").encode_stream(Response(PLAIN, "model-1"), WORDS)).decode()
UNKNOWN = BODY.replace('"object":', '"unknown_field":7,"object":')
ENTRY = {
    "content": PLAIN,
    "model": "model-1",
    "wire": {"protocol": "openai_chat", "headers": {"content-type": "text/event-stream"}, "frames": [[3.0, UNKNOWN]]},
}


@pytest.fixture(scope="module")
def server() -> Iterator[WireServer]:
    with serving(responses={"hello": ENTRY}) as running:
        yield running


@pytest.fixture(scope="module")
def pooled() -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url="http://unused", api_key="k", max_retries=0) as client:
        yield client


def ask(pooled, url, *, timeout_s=5.0):
    client = pooled.with_options(base_url=f"{url}/v1")
    return client.chat.completions.create(
        model="m", messages=[{"role": "user", "content": QUESTION}], stream=True, timeout=timeout_s
    )


def test_what_the_sdk_does_not_know_is_there_as_it_was(pooled, run):
    assert {chunk.unknown_field for chunk in ask(pooled, run.url)} == {7}


@pytest.mark.parametrize("count", [0, 1, 4])
def test_a_stream_breaks_after_so_many_events_though_all_came_at_once(pooled, start, count):
    run = start(f"everywhere: stream_truncate {count} raise=clean")
    assert len(list(ask(pooled, run.url))) == count


def test_a_stream_that_is_to_break_behind_its_end_lacks_the_last_event(pooled, start):
    run = start("everywhere: stream_truncate 1000 raise=cut")
    with pytest.raises(openai.APIConnectionError):
        list(ask(pooled, run.url))


def test_a_stream_falls_silent_after_so_many_events_though_all_came_at_once(pooled, start):
    run = start("everywhere: stream_stall 2")
    chunks = []
    with pytest.raises(openai.APITimeoutError):
        chunks.extend(ask(pooled, run.url, timeout_s=0.2))
    assert len(chunks) == 2


def test_events_drip_one_by_one_though_all_came_at_once(pooled, start):
    run = start("everywhere: slow_drip 1")
    assert "".join(chunk.choices[0].delta.content or "" for chunk in ask(pooled, run.url) if chunk.choices).split() == (
        PLAIN.split()
    )
