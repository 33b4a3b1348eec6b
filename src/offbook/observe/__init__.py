"""Event sinks: Prometheus, OpenTelemetry and JSON lines."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from offbook.observe.json_lines import JsonLinesSink, read_events
    from offbook.observe.otel import OtelSink
    from offbook.observe.prometheus import PrometheusSink

_HOME = {
    "JsonLinesSink": "offbook.observe.json_lines",
    "OtelSink": "offbook.observe.otel",
    "PrometheusSink": "offbook.observe.prometheus",
    "read_events": "offbook.observe.json_lines",
}


def __getattr__(name: str) -> object:
    """Load a sink when it is first used: each has requirements of its own."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOME[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = ["JsonLinesSink", "OtelSink", "PrometheusSink", "read_events"]
