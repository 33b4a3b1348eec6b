"""Tools: what a model can call, and how calls are run."""

from offbook.lazy_names import lazy_names
from offbook.tools.result_text import result_text as result_text

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
