"""Sends OpenTelemetry spans and metrics to a collector, over OTLP and HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar
from urllib.parse import urlsplit

from offbook.errors import InputError
from offbook.observe.otel import ExportedOtelSink, OtelSink, resource

try:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import MetricExportResult, MetricsData, PeriodicExportingMetricReader
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult
except ImportError as error:
    from offbook.installed import install_hint

    reason, hint = "opentelemetry-exporter-otlp-proto-http is not installed", install_hint("observability")
    raise InputError(reason, source="OtlpSink", hint=hint) from error

TIMEOUT_S = 5.0
"""The time limit for the collector to accept data. A run does not fail if it takes longer."""


R = TypeVar("R", SpanExportResult, MetricExportResult)


class _FailureLog:
    """Notes whether the collector rejected something."""

    has_failed = False

    def noted(self, result: R) -> R:
        self.has_failed |= result.name != "SUCCESS"
        return result


class _SpanExporter(_FailureLog, OTLPSpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return self.noted(super().export(spans))


class _MetricExporter(_FailureLog, OTLPMetricExporter):
    def export(
        self, metrics_data: MetricsData, timeout_millis: float | None = TIMEOUT_S * 1000, **kwargs: object
    ) -> MetricExportResult:
        return self.noted(super().export(metrics_data, timeout_millis, **kwargs))


class OtlpSink(ExportedOtelSink):
    """Sends the spans and metrics of OtelSink to the collector at `url`, such as `http://127.0.0.1:4318`.

    `OTEL_SERVICE_NAME` (by default `offbook`) and `OTEL_RESOURCE_ATTRIBUTES` describe the sender,
    `OTEL_EXPORTER_OTLP_HEADERS` has headers. The other arguments are those of OtelSink.

    Raises:
        InputError: the URL is not an HTTP URL.
    """

    def __init__(
        self, url: str, *, conversation_id: str | None = None, run_id: str | None = None, run: str | None = None
    ) -> None:
        if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
            raise InputError(f"{url!r} is not a URL of a collector", source="--otel", hint="use http://127.0.0.1:4318")
        root, sender = url.rstrip("/"), resource()
        self._tracers = TracerProvider(resource=sender, shutdown_on_exit=False)
        self._spans = _SpanExporter(f"{root}/v1/traces", timeout=TIMEOUT_S)
        self._metrics = _MetricExporter(f"{root}/v1/metrics", timeout=TIMEOUT_S)
        self._tracers.add_span_processor(BatchSpanProcessor(self._spans))
        self._meters = MeterProvider(
            [PeriodicExportingMetricReader(self._metrics)], resource=sender, shutdown_on_exit=False
        )
        self._sink = OtelSink(
            self._tracers, meter_provider=self._meters, conversation_id=conversation_id, run_id=run_id, run=run
        )

    @property
    def has_failed(self) -> bool:
        """Whether the collector rejected something."""
        return self._spans.has_failed or self._metrics.has_failed

    def close(self) -> None:
        """Send the remaining data. Safe to call twice."""
        self._sink.close()
        self._tracers.shutdown()
        self._meters.shutdown(timeout_millis=TIMEOUT_S * 1000)
