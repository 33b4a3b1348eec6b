"""Providers: the interface, the HTTP provider, and one for each vendor."""

from offbook.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
