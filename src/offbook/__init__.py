"""Stands in for the models and tools of LLM agents, so that agents can be tested deterministically."""

from offbook.lazy_names import PUBLIC_MODULES, lazy_names

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__, "__version__", other_homes=PUBLIC_MODULES)
