"""Event sinks: Prometheus, OpenTelemetry, JSON lines."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from understudy.observe.json_lines import JsonLinesSink, read_events
    from understudy.observe.otel import OtelSink
    from understudy.observe.prometheus import PrometheusSink

_HOME = {
    "JsonLinesSink": "understudy.observe.json_lines",
    "OtelSink": "understudy.observe.otel",
    "PrometheusSink": "understudy.observe.prometheus",
    "read_events": "understudy.observe.json_lines",
}


def __getattr__(name: str) -> object:
    """Load a sink when it is asked for: what one needs, the others do without."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOME[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = ["JsonLinesSink", "OtelSink", "PrometheusSink", "read_events"]
