"""Tools: functions that a model can call, and the execution of calls."""

from offbook.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
