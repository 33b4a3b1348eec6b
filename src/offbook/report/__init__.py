"""Reports of scenario runs: on the console, as JSON, JUnit XML or an HTML page, and for GitHub."""

from offbook.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
