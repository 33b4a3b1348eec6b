"""Writes OpenTelemetry spans to a file, one JSON object a line."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Self

from offbook.errors import InputError
from offbook.events import CallContent, Event
from offbook.observe.json_lines import open_for_writing
from offbook.observe.otel import OtelSink

try:
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
except ImportError as error:
    reason, hint = "opentelemetry-sdk is not installed", "install offbook[observability]"
    raise InputError(reason, source="SpanFileSink", hint=hint) from error


class SpanFileSink:
    """Writes every span of OtelSink to `path` when it ends, as one line of JSON. The file is replaced.

    Raises:
        InputError: the file cannot be written.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._file = open_for_writing(path)
        self._provider = TracerProvider(shutdown_on_exit=False)
        self._provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(out=self._file, formatter=_line)))
        self._sink = OtelSink(self._provider)

    @property
    def captures_content(self) -> bool:
        """Whether spans have the messages of their calls."""
        return self._sink.captures_content

    def capture(self, content: CallContent) -> None:
        self._sink.capture(content)

    def emit(self, event: Event) -> None:
        self._sink.emit(event)

    def close(self) -> None:
        """Close the file. Safe to call twice."""
        self._provider.shutdown()
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _line(span: ReadableSpan) -> str:
    return f"{span.to_json(indent=None)}\n"
