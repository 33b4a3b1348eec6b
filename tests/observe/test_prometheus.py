"""Events as Prometheus metrics."""

import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest
from prometheus_client import CollectorRegistry, Counter
from prometheus_client.parser import text_string_to_metric_families

from offbook.clock import run
from offbook.errors import InputError, RecordingMismatchError
from offbook.events import (
    AttemptStarted,
    BreakerChanged,
    CallEnded,
    CallRecorded,
    FaultFired,
    ReplayServed,
    RetryScheduled,
)
from offbook.observe import PrometheusSink
from offbook.session.provider import MockProvider
from offbook.workflow import WorkflowEngine, parse_workflow
from tests.observe.traffic import SLOW_S, drive


def figures(text):
    """All samples of an exposition, by name and label values in the order of the label names."""
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def counted(*events):
    sink = PrometheusSink()
    for event in events:
        sink.emit(event)
    return figures(sink.render())


@pytest.fixture(scope="module")
def run_figures(tmp_path_factory):
    """The figures of a run in which everything happens."""
    sink = PrometheusSink()
    run(drive(sink, tmp_path_factory.mktemp("run")), virtual_time=True)
    return figures(sink.render())


@pytest.mark.parametrize(
    ("series", "value"),
    [
        (("offbook_mock_replays_total", "step_id", "tour"), 4),
        (("offbook_mock_replays_total", "prompt_hash", "tour"), 1),
        (("offbook_mock_replays_total", "default", "tour"), 1),
        (("offbook_mock_misses_total", "missing", "tour"), 1),
        (("offbook_mock_faults_total", "http_error", "tour"), 5),
        (("offbook_mock_faults_total", "timeout", "tour"), 1),
        (("offbook_recording_captures_total", "gpt-5", "anthropic"), 1),
        (("offbook_recording_latency_seconds_count", "gpt-5", "anthropic"), 1),
        (("offbook_recording_latency_seconds_sum", "gpt-5", "anthropic"), SLOW_S),
        (("offbook_recording_latency_seconds_bucket", "0.64", "gpt-5", "anthropic"), 0),
        (("offbook_recording_latency_seconds_bucket", "1.28", "gpt-5", "anthropic"), 1),
        (("offbook_provider_attempts_total", "gpt-5", "ok", "openai"), 5),
        (("offbook_provider_attempts_total", "gpt-5", "ok", "anthropic"), 1),
        (("offbook_provider_attempts_total", "gpt-5", "ProviderError", "openai"), 2),
        (("offbook_provider_attempts_total", "gpt-5", "ProviderTimeoutError", "openai"), 1),
        (("offbook_provider_attempts_total", "shaky", "BreakerOpenError", "shaky"), 1),
        (("offbook_provider_retries_total", "openai"), 2),
        (("offbook_provider_fallbacks_total", "openai", "anthropic"), 1),
        (("offbook_breaker_state", "openai"), 0),
        (("offbook_breaker_state", "shaky"), 2),
        (("offbook_tokens_total", "prompt", "gpt-5", "openai"), 110),
        (("offbook_tokens_total", "completion", "gpt-5", "openai"), 25),
        (("offbook_tokens_total", "prompt", "gpt-5", "anthropic"), 7),
        (("offbook_cost_usd_total", "gpt-5", "openai"), 0.75),
        (("offbook_cost_usd_total", "gpt-5", "anthropic"), 0.125),
        (("offbook_call_seconds_count", "gpt-5"), 6),
        (("offbook_calls_total", "ok", "tour"), 6),
        (("offbook_calls_total", "AllProvidersFailedError", "tour"), 2),
        (("offbook_context_compactions_total", "1", "SlidingWindowCompact"), 1),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else None,
)
def test_a_run_is_counted(run_figures, series, value):
    assert run_figures[series] == value


def test_a_failed_call_uses_no_tokens_and_costs_nothing(run_figures):
    assert not [series for series in run_figures if series[0].startswith(("offbook_tokens", "offbook_cost"))
                and "shaky" in series]  # fmt: skip


def test_waits_before_retries_are_added_up():
    figure = counted(RetryScheduled(None, "openai", 1.5, "E"), RetryScheduled(None, "openai", 2.0, "E"))
    assert figure["offbook_provider_retries_total", "openai"] == 2
    assert figure["offbook_provider_retry_wait_seconds_total", "openai"] == 3.5


def test_faults_of_a_plan_and_of_a_recording_count_alike():
    figure = counted(
        FaultFired(None, "", "tool_lost", call=1, tool="refund"),
        FaultFired(None, "m", "timeout", "tour"),
        ReplayServed(None, "m", "prompt_hash", "k", "h", "timeout", "tour"),
        ReplayServed(None, "m", "prompt_hash", "k", "h", None, "tour"),
    )
    assert figure["offbook_mock_faults_total", "timeout", "tour"] == 2
    assert figure["offbook_mock_faults_total", "tool_lost", ""] == 1
    assert figure["offbook_mock_replays_total", "prompt_hash", "tour"] == 2


@pytest.mark.parametrize(("state", "value"), [("closed", 0), ("half_open", 1), ("open", 2)])
def test_a_breaker_shows_its_last_state(state, value):
    figure = counted(BreakerChanged("openai", "open"), BreakerChanged("openai", state))
    assert figure["offbook_breaker_state", "openai"] == value


def test_a_further_attempt_does_not_close_a_breaker():
    figure = counted(BreakerChanged("openai", "open"), AttemptStarted(None, "openai", "m"))
    assert figure["offbook_breaker_state", "openai"] == 2


def test_a_label_that_utf8_cannot_write_does_not_fail_the_scrape():
    figure = counted(CallEnded(None, "p", 'cafe\udce9 "☀"\n', 1.0))
    assert figure["offbook_call_seconds_count", 'cafe? "☀"\n'] == 1


def test_sinks_have_registries_of_their_own():
    counted(RetryScheduled(None, "openai", 1.5, "E"))
    assert not [series for series in counted() if "openai" in series]


def test_a_registry_can_be_shared_with_other_metrics():
    registry = CollectorRegistry()
    Counter("mine", "A metric of the user's.", registry=registry).inc()
    sink = PrometheusSink(registry)
    sink.emit(BreakerChanged("openai", "open"))
    figure = figures(sink.render())
    assert figure["mine_total",] == 1
    assert figure["offbook_breaker_state", "openai"] == 2


def test_a_registry_takes_one_sink():
    registry = CollectorRegistry()
    PrometheusSink(registry)
    with pytest.raises(InputError, match="already has offbook's metrics"):
        PrometheusSink(registry)


def test_threads_lose_no_count():
    sink = PrometheusSink()
    event = RetryScheduled(None, "openai", 0.5, "E")

    def emit_many(_):
        for _ in range(500):
            sink.emit(event)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(emit_many, range(8)))
    assert figures(sink.render())["offbook_provider_retries_total", "openai"] == 4000


def test_scrapes_are_answered_on_loopback_until_closed():
    with PrometheusSink() as sink:
        sink.emit(BreakerChanged("openai", "half_open"))
        url = f"http://127.0.0.1:{sink.serve()}/metrics"
        with urllib.request.urlopen(url) as scraped:
            assert figures(scraped.read())["offbook_breaker_state", "openai"] == 1
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(url)
    sink.close()


def test_a_closed_sink_can_serve_again():
    with PrometheusSink() as sink:
        port = sink.serve()
        sink.close()
        assert sink.serve(port) == port


def test_a_sink_serves_once_at_a_time():
    with PrometheusSink() as sink:
        port = sink.serve()
        with pytest.raises(InputError, match=f"at port {port}"):
            sink.serve()


def test_a_port_that_is_taken_is_named():
    with PrometheusSink() as first, PrometheusSink() as second:
        port = first.serve()
        with pytest.raises(InputError, match=f"port {port} is not available: Address already in use"):
            second.serve(port)


def test_a_call_over_http_counts_its_tokens_and_cost_although_no_gateway_does():
    recorded = CallRecorded(None, "openai", "m", 0.5, prompt_tokens=3, completion_tokens=2, cost_usd=0.5)
    replayed = ReplayServed(None, "m", "prompt_hash", "k", "h", provider="openai", prompt_tokens=3, cost_usd=0.25)
    found = counted(recorded, replayed)
    assert found["offbook_tokens_total", "prompt", "m", "openai"] == 6
    assert found["offbook_cost_usd_total", "m", "openai"] == 0.75


def test_a_run_that_a_strict_replay_refuses_is_counted():
    sink = PrometheusSink()
    flow = parse_workflow("name: desk\nsteps: [{id: ask, type: llm_call, prompt: Hi, model: m}]")
    with pytest.raises(RecordingMismatchError):
        WorkflowEngine(flow, MockProvider(responses={}, strict=True), sink=sink).run_sync()
    assert figures(sink.render())["offbook_workflow_runs_total", "refused", "desk"] == 1
