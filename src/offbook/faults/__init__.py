"""Faults: the ways in which a model or a tool can fail, and the plans that place them."""

from offbook.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
