"""Commands that are run as if we were not there."""

import os
import signal

import pytest

from offbook.cli.run_program import ChildExit, run_child
from tests.cli.programs import PYTHON

PAUSE = [*PYTHON, "import signal; signal.alarm(20); signal.pause()"]


@pytest.fixture
def _unmoved():
    """What is started now ignores SIGTERM."""
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGTERM, before)


def test_a_command_ends_by_itself():
    assert run_child([*PYTHON, "raise SystemExit(7)"], os.environ, time_limit_s=30) == ChildExit(7)


def test_a_command_is_told_to_end_at_its_limit():
    assert run_child(PAUSE, os.environ, time_limit_s=0.1) == ChildExit(128 + signal.SIGTERM, is_late=True)


@pytest.mark.usefixtures("_unmoved")
def test_a_command_that_will_not_end_is_killed():
    end = run_child(PAUSE, os.environ, time_limit_s=0.1, grace_s=0.1)
    assert end == ChildExit(128 + signal.SIGKILL, is_late=True)
