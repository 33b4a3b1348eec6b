"""Writes OpenTelemetry spans to a file, one JSON object a line."""

from __future__ import annotations

import os

from offbook.errors import InputError
from offbook.observe.json_lines import open_for_writing
from offbook.observe.otel import ExportedOtelSink, OtelSink, resource

try:
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
except ImportError as error:
    from offbook.installed import install_hint

    reason, hint = "opentelemetry-sdk is not installed", install_hint("observability")
    raise InputError(reason, source="SpanFileSink", hint=hint) from error


class SpanFileSink(ExportedOtelSink):
    """Writes every span of OtelSink to `path` when it ends, as one line of JSON. The file is replaced.

    `run_id` and `run` are those of OtelSink.

    Raises:
        InputError: the file cannot be written.
    """

    def __init__(self, path: str | os.PathLike[str], *, run_id: str | None = None, run: str | None = None) -> None:
        self._file = open_for_writing(path)
        self._provider = TracerProvider(resource=resource(), shutdown_on_exit=False)
        self._provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(out=self._file, formatter=_line)))
        self._sink = OtelSink(self._provider, run_id=run_id, run=run)

    def close(self) -> None:
        """Close the file. Safe to call twice."""
        self._sink.close()
        self._provider.shutdown()
        self._file.close()


def _line(span: ReadableSpan) -> str:
    return f"{span.to_json(indent=None)}\n"
