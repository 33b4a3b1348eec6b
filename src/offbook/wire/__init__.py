"""Servers, proxies and transports that stand in for the vendors' HTTP APIs, without a change to programs."""

from offbook.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
