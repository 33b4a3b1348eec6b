"""Settings for the whole suite."""

import gc
import os
import random
import signal
import sys

import pytest
from hypothesis import settings

from tests.servers.quick_tls import one_authority

for profile, examples in (("quick", 15), ("thorough", 300)):
    settings.register_profile(profile, deadline=None, derandomize=True, database=None, max_examples=examples)
settings.load_profile(os.environ.get("OFFBOOK_HYPOTHESIS_PROFILE", "quick"))

pytest_plugins = ["pytester"]

# background jobs of a shell and of nohup ignore some signals, and programs under test inherit that
for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM):
    signal.signal(number, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def quick_tls(tmp_path_factory):
    """Clients of HTTP here and in programs are made quickly."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", one_authority(tmp_path_factory.mktemp("tls") / "authority.pem"))
        yield


gc.disable()  # nothing that is made while tests are collected is garbage


def pytest_collection_finish():
    """Keep what is there before the first test out of collections of garbage, which would read all of it each time."""
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items):
    """Run what loads an SDK last: a fork takes the longer, the more this process has loaded.

    If OFFBOOK_TEST_SHUFFLE is a seed, files, and the tests of each file, run in an order of chance.
    """
    items.sort(key=lambda item: item.get_closest_marker("loads_sdk") is not None)
    if seed := os.environ.get("OFFBOOK_TEST_SHUFFLE"):
        chance = random.Random(seed)
        places = {path: chance.random() for path in dict.fromkeys(item.path for item in items)}
        items.sort(key=lambda item: (places[item.path], chance.random()))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol():
    """Forget the modules that a test has written: one of another test may have the same name.

    No bytecode is kept of them either: a file that is written twice within a second, in the same length, would be
    taken for the first one.

    A command that runs here lets garbage lie for longer, as is right for a short process. This one is not: what is left
    makes forks, and looks at all objects, slower and slower.
    """
    before, dont_write_bytecode = len(sys.modules), sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    thresholds = gc.get_threshold()
    result = yield
    gc.set_threshold(*thresholds)
    sys.dont_write_bytecode = dont_write_bytecode
    if len(sys.modules) != before:
        forget_written_modules()
    return result


def forget_written_modules():
    """Forget the modules in pytest's temporary folders."""
    for name in list(sys.modules):  # names only: making anything else may let a thread import meanwhile
        file = getattr(sys.modules.get(name), "__dict__", {}).get("__file__")
        if isinstance(file, str) and "/pytest-of-" in file:  # where pytest has its temporary folders
            sys.modules.pop(name, None)
