"""Spans and metrics reach a collector, as the protocol has them."""

import gzip

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from offbook.errors import InputError
from offbook.events import CallEnded, CallStarted, ToolCalled
from offbook.observe import OtlpSink
from tests.servers.loopback import LoopbackServer

KINDS = {"/v1/traces": ExportTraceServiceRequest, "/v1/metrics": ExportMetricsServiceRequest}


def emit_all(sink):
    sink.emit(CallStarted("greet", "gpt-5"))
    sink.emit(CallEnded("greet", "openai", "gpt-5", 1.0, prompt_tokens=3, completion_tokens=2))
    sink.emit(ToolCalled("refund", 0.1))


def received(server):
    """The messages that a collector has got, by their path."""
    bodies = {}
    for path, headers, body in server.calls:
        data = gzip.decompress(body) if headers["content-encoding"] == "gzip" else body
        bodies.setdefault(path, []).append(KINDS[path].FromString(data))
    return bodies


@pytest.mark.parametrize("name", ["refunds", ""])
def test_a_collector_gets_spans_and_metrics(monkeypatch, name):
    monkeypatch.setenv("OTEL_SERVICE_NAME", name)
    with LoopbackServer(b"") as server:
        with OtlpSink(f"{server.url}/") as sink:
            emit_all(sink)
        assert not sink.has_failed
        messages = received(server)
    (traces,) = messages["/v1/traces"]
    (resource,) = traces.resource_spans
    assert {each.key: each.value.string_value for each in resource.resource.attributes}["service.name"] == (
        name or "offbook"
    )
    assert [span.name for span in resource.scope_spans[0].spans] == ["chat gpt-5", "execute_tool refund"]
    metrics = messages["/v1/metrics"][-1].resource_metrics[0].scope_metrics[0].metrics
    assert {metric.name for metric in metrics} == {"gen_ai.client.operation.duration", "gen_ai.client.token.usage"}


def test_a_collector_that_refuses_is_noticed_and_fails_nothing():
    with LoopbackServer(lambda call: call.whole(b"", status=400)) as server, OtlpSink(server.url) as sink:
        emit_all(sink)
        sink.close()
        assert sink.has_failed


@pytest.mark.parametrize("url", ["127.0.0.1:4318", "ftp://collector", "http://", "grpc://127.0.0.1:4317"])
def test_what_is_no_address_of_a_collector_is_refused(url):
    with pytest.raises(InputError, match="is not a URL of a collector"):
        OtlpSink(url)
