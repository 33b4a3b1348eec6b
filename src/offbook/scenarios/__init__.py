"""Scenarios: tests of agents in conversation, with mocked tools, trajectory assertions and judges."""

from offbook.lazy_names import lazy_names
from offbook.scenarios.scenario import scenario as scenario

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
