"""Faults that a response file declares, and what becomes of them in a workflow."""

import asyncio
import json

import httpx
import pytest

from offbook import BreakerPolicy, MockProvider, ProviderGateway, RetryPolicy, WorkflowEngine, run
from offbook.errors import BreakerOpenError, MalformedResponseError, ProviderError, RateLimitError
from offbook.messages import TextDelta
from offbook.observe import PrometheusSink
from tests.fakes import user


def mock(step, **fields):
    return MockProvider(responses={"_version": 2, step: fields})


def raised(provider, step):
    """The error of a call of a step, and the seconds until it came."""

    async def work():
        with pytest.raises(Exception) as caught:  # noqa: PT011 - each test says which
            await provider.complete(user("Hi"), "gpt-4o-mini", step_id=step)
        return caught.value, asyncio.get_running_loop().time()

    return run(work(), virtual_time=True)


def test_mock_fault_timeout_raises_timeout_error():
    error, after_s = raised(mock("step_answer", fault={"type": "timeout", "after_ms": 5000}), "step_answer")
    assert isinstance(error, TimeoutError)
    assert after_s == 5.0


def test_mock_fault_http_error_429_raises_rate_limit_error():
    fault = {"type": "http_error", "status_code": 429, "headers": {"Retry-After": "30"}, "body": "Rate limit exceeded"}
    error, _ = raised(mock("step_summarize", fault=fault), "step_summarize")
    assert isinstance(error, RateLimitError)
    assert (error.retry_after_s, error.body) == (30.0, "Rate limit exceeded")


def test_mock_fault_http_error_500_raises_provider_error():
    fault = {"type": "http_error", "status_code": 500, "body": "Internal server error"}
    error, _ = raised(mock("step_explain", fault=fault), "step_explain")
    assert isinstance(error, ProviderError)
    assert (error.status_code, error.body) == (500, "Internal server error")


def test_mock_fault_malformed_response_fails_adapter_parsing():
    fault = {"type": "malformed_response", "raw": "not valid json"}
    error, _ = raised(mock("step_translate", fault=fault), "step_translate")
    assert isinstance(error, MalformedResponseError)
    assert error.raw == "not valid json"


@pytest.mark.parametrize(("name", "kind"), [("ConnectionError", ConnectionError), ("EOFError", EOFError)])
def test_mock_fault_stream_truncate_raises_mid_stream(name, kind):
    fault = {"type": "stream_truncate", "after_chunks": 3, "raise": name}
    provider, chunks = mock("step_stream_long", content="one two three four", fault=fault), []

    async def work():
        async for event in await provider.stream(user("Hi"), "gpt-4o-mini", step_id="step_stream_long"):
            chunks.append(event)  # noqa: PERF401 - those before the error count

    with pytest.raises(kind):
        run(work())
    assert chunks == [TextDelta("one"), TextDelta(" two"), TextDelta(" three")]


def test_mock_fault_connection_reset_immediate():
    error, after_s = raised(mock("step", fault={"type": "connection_reset"}), "step")
    assert isinstance(error, httpx.ConnectError)
    assert after_s == 0.0


def test_mock_fault_partial_response_finish_reason_length():
    provider = mock("step", content="Half a", usage={"completion_tokens": 9}, fault={"type": "partial_response"})
    answer = run(provider.complete(user("Hi"), "gpt-4o-mini", step_id="step"))
    assert (answer.content, answer.finish_reason, answer.usage.completion_tokens) == ("Half a", "length", 0)


def test_mock_fault_in_workflow_triggers_retry_policy(tmp_path):
    attempts = [{"fault": {"type": "http_error", "status_code": 500}}, {"content": "success after retry"}]
    (tmp_path / "responses.json").write_text(json.dumps({"_version": 2, "ask": attempts}))
    flow = tmp_path / "flow.yaml"
    flow.write_text(
        "name: flow\n"
        "config: {provider: mock, model: m, responses_file: responses.json, retry: {max_retries: 1}}\n"
        "steps: [{id: ask, type: llm_call, prompt: Hi, output: answer}]\n"
    )
    result = run(WorkflowEngine(workflow=flow).run(), virtual_time=True)
    assert result.state == {"answer": "success after retry"}
    assert result.steps["ask"].attempts == 2


def test_mock_fault_propagates_to_circuit_breaker():
    gateway = ProviderGateway(retry=RetryPolicy(max_retries=0), breaker=BreakerPolicy(failures=2))
    provider = mock("step", fault={"type": "http_error", "status_code": 503})
    gateway.register(provider)
    errors = [raised(gateway, "step")[0].attempts[0].error for _ in range(3)]
    assert [error.status_code for error in errors] == [503, 503, None]
    assert isinstance(errors[-1], BreakerOpenError)
    assert len(provider.calls) == 2


def test_mock_fault_metric_recorded():
    with PrometheusSink() as sink:
        fault = {"type": "connection_reset"}
        raised(MockProvider(responses={"step": {"fault": fault}}, sink=sink), "step")
        assert 'offbook_mock_faults_total{fault_type="connection_reset",workflow=""} 1.0' in sink.render().decode()
