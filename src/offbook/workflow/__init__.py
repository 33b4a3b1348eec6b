"""Workflows: YAML graphs of steps, their files and the engine that runs them."""

from offbook.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
