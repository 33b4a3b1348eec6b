"""Settings for the whole suite."""

import sys

import pytest
from hypothesis import settings

settings.register_profile("understudy", deadline=None, derandomize=True, database=None, max_examples=60)
settings.load_profile("understudy")

pytest_plugins = ["pytester"]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol():
    """Forget the modules that a test has written: one of another test may have the same name."""
    known = len(sys.modules)
    result = yield
    for name in list(sys.modules)[known:]:
        if "/pytest-of-" in str(getattr(sys.modules[name], "__file__", None)):  # where pytest has its temporary folders
            del sys.modules[name]
    return result
