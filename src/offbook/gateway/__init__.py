"""The provider gateway and its parts: routing, retry, circuit breaker, rate limit, deadline and budget."""

from offbook.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
