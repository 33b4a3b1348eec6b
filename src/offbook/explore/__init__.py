"""Replays a recorded run with each fault at each of its calls, and judges the outcome."""

from offbook.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
