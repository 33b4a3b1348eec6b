"""Event sinks: Prometheus, OpenTelemetry and JSON lines. Each is loaded when it is first used."""

from offbook.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
