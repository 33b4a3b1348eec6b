"""Settings for the whole suite."""

import signal
import sys

import pytest
from hypothesis import settings

settings.register_profile("offbook", deadline=None, derandomize=True, database=None, max_examples=60)
settings.load_profile("offbook")

pytest_plugins = ["pytester"]

# a shell starts background jobs with SIGINT ignored, and programs under test inherit that
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol():
    """Forget the modules that a test has written: one of another test may have the same name."""
    result = yield
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__dict__", {}).get("__file__")
        if isinstance(file, str) and "/pytest-of-" in file:  # where pytest has its temporary folders
            del sys.modules[name]
    return result
