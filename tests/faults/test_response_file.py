"""Faults in a response file: every step fails or answers the way it says, on every run."""

import asyncio
import json

import pytest

from offbook import MemorySink, MockProvider, ProviderConnectionError, ProviderError, RateLimitError, TextDelta, run
from offbook.errors import MalformedResponseError
from tests.fakes import read_until_broken, user

RESPONSES = """{
  "step_classify": {
    "content": "question",
    "model": "gpt-4o-mini",
    "usage": {"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11},
    "cost_usd": 0.0001
  },
  "step_answer": {"fault": {"type": "timeout", "after_ms": 5000}},
  "step_summarize": {
    "fault": {"type": "http_error", "status_code": 429, "headers": {"Retry-After": "30"}, "body": "Rate limit exceeded"}
  },
  "step_explain": {"fault": {"type": "http_error", "status_code": 500, "body": "Internal server error"}},
  "step_translate": {"fault": {"type": "malformed_response", "raw": "not valid json"}},
  "step_stream_long": {"fault": {"type": "stream_truncate", "after_chunks": 3, "raise": "ConnectionError"}},
  "step_connect": {"fault": {"type": "connection_reset"}},
  "step_partial": {
    "content": "The capital of",
    "usage": {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13},
    "fault": {"type": "partial_response"}
  },
  "first_attempt": {"fault": {"type": "http_error", "status_code": 500}},
  "second_attempt": {"content": "success after retry"}
}"""
HI = user("Hi")


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "responses.json"
    path.write_text(RESPONSES)
    return path


def mock_of(path, **options):
    return MockProvider(responses_file=path, **options)


async def caught(provider, step_id, kind=ProviderError):
    with pytest.raises(kind) as error:
        await provider.complete(HI, "gpt-4o-mini", step_id=step_id)
    return error.value


def test_a_timeout_raises_a_timeout_error_after_its_time(path):
    async def work():
        await caught(mock_of(path), "step_answer", TimeoutError)
        return asyncio.get_running_loop().time()

    assert run(work(), virtual_time=True) == 5.0


async def test_429_raises_a_rate_limit_error(path):
    error = await caught(mock_of(path), "step_summarize", RateLimitError)
    assert error.status_code == 429
    assert error.retry_after_s == 30.0
    assert error.body == "Rate limit exceeded"


async def test_500_raises_a_provider_error(path):
    error = await caught(mock_of(path), "step_explain")
    assert error.status_code == 500
    assert error.body == "Internal server error"
    assert not isinstance(error, RateLimitError)


async def test_a_malformed_response_fails_to_be_parsed(path):
    error = await caught(mock_of(path), "step_translate", MalformedResponseError)
    assert error.raw == "not valid json"


async def test_a_truncated_stream_breaks_in_the_middle(tmp_path):
    entry = {"content": "one two three four five"} | json.loads(RESPONSES)["step_stream_long"]
    mock = MockProvider(responses={"step_stream_long": entry})
    came, error = await read_until_broken(await mock.stream(HI, "m", step_id="step_stream_long"))
    assert came == [TextDelta("one"), TextDelta(" two"), TextDelta(" three")]
    assert isinstance(error, ConnectionError)


async def test_a_connection_reset_is_immediate(path):
    loop = asyncio.get_running_loop()
    started_s = loop.time()
    await caught(mock_of(path), "step_connect", ProviderConnectionError)
    assert loop.time() - started_s < 1.0


async def test_a_partial_response_ends_by_length(path):
    response = await mock_of(path).complete(HI, "m", step_id="step_partial")
    assert response.content == "The capital of"
    assert response.finish_reason == "length"
    assert response.usage.prompt_tokens == 10
    assert response.usage.completion_tokens == 0


async def test_a_fault_in_one_step_leaves_the_others_alone(path):
    mock = mock_of(path)
    await caught(mock, "first_attempt")
    assert (await mock.complete(HI, "m", step_id="second_attempt")).content == "success after retry"
    response = await mock.complete(HI, "m", step_id="step_classify")
    assert response.content == "question"
    assert response.cost_usd == 0.0001


async def test_the_same_fault_fires_on_every_run(path):
    errors = [await caught(mock, "step_explain") for mock in (mock_of(path), mock_of(path)) for _ in range(3)]
    assert len({str(error) for error in errors}) == 1


async def test_a_list_fails_twice_and_then_succeeds():
    down = {"fault": {"type": "http_error", "status_code": 503}}
    mock = MockProvider(responses={"a": [down, down, {"content": "back"}]}, strict=True)
    for _ in range(2):
        assert (await caught(mock, "a")).status_code == 503
    assert (await mock.complete(HI, "m", step_id="a")).content == "back"
    assert mock.unused() == []


async def test_every_fault_that_fires_is_reported_to_the_sink(path):
    sink = MemorySink()
    mock = mock_of(path, sink=sink)
    await caught(mock, "step_explain")
    await mock.complete(HI, "m", step_id="step_classify")
    await caught(mock, "step_translate")
    assert [event.fault_type for event in sink.events] == ["http_error", None, "malformed_response"]
    assert [call.fault_type for call in mock.calls] == [event.fault_type for event in sink.events]
