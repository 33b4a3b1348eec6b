"""Event sinks: Prometheus, OpenTelemetry and JSON lines. Each loads on first use."""

from offbook.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
