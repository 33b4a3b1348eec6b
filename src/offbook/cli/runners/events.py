"""The destinations of a command's events: files, Prometheus, or an OpenTelemetry collector."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from uuid import uuid4

from msgspec import Struct

from offbook.clock import SYSTEM_CLOCK
from offbook.events import NULL_SINK, Sink, Sinks

MAX_PORT = 65_535


class EventOptions(Struct, frozen=True, kw_only=True):
    """`trace` is a file for events and `spans` one for spans; `metrics` is a file, or a port to serve them at.

    `otel` is the URL of a collector.
    """

    trace: str | None = None
    metrics: str | None = None
    spans: str | None = None
    otel: str | None = None

    @contextmanager
    def open(self, run: str | None = None) -> Iterator[Sink]:
        """Open the sinks until the block ends. A metrics file is written at the end, even after an error.

        Spans have an id of this run, and are in one span `run`, if it is given.

        Raises:
            InputError: a file cannot be written, a port is not available, or a library is not installed.
        """
        with ExitStack() as stack:
            sinks: list[Sink] = []
            run_id = uuid4().hex
            if self.trace is not None:
                from offbook.observe.json_lines import JsonLinesSink

                sinks.append(stack.enter_context(JsonLinesSink(self.trace, clock=SYSTEM_CLOCK)))
            if self.metrics is not None:
                sinks.append(stack.enter_context(_metrics(self.metrics)))
            if self.spans is not None:
                from offbook.observe.span_file import SpanFileSink

                sinks.append(stack.enter_context(SpanFileSink(self.spans, run_id=run_id, run=run)))
            if self.otel is not None:
                sinks.append(stack.enter_context(_collector(self.otel, run_id=run_id, run=run)))
            yield Sinks(*sinks) if sinks else NULL_SINK

    @property
    def given(self) -> list[str]:
        """The given options."""
        return [name for name in self.__struct_fields__ if getattr(self, name) is not None]


@contextmanager
def _metrics(target: str) -> Iterator[Sink]:
    from offbook.observe.prometheus import PrometheusSink

    with PrometheusSink() as sink:
        if target.isdecimal() and int(target) <= MAX_PORT:
            sink.serve(int(target))
            yield sink
            return
        _write(target, sink.render())
        try:
            yield sink
        finally:
            _write(target, sink.render())


@contextmanager
def _collector(url: str, *, run_id: str, run: str | None) -> Iterator[Sink]:
    """A sink for the collector. Rejected data gives one line at the end, instead of many from the exporters."""
    import logging

    from offbook.cli.output.console import print_message
    from offbook.observe.otlp import OtlpSink

    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL + 1)
    with OtlpSink(url, run_id=run_id, run=run) as sink:
        yield sink
    if sink.has_failed:
        print_message(
            "warning: ", f"the collector at {url} did not accept everything", style="bold yellow", is_err=True
        )


def _write(path: str, data: bytes) -> None:
    from offbook.errors import InputError
    from offbook.files import replace_file

    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        replace_file(Path(path), data)
    except OSError as error:
        raise InputError(error.strerror or str(error), source=path) from None
