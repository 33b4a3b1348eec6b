"""The guarded tool-calling loop, and the guards for other loops."""

from offbook.agent.rescue import rescue as rescue
from offbook.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
