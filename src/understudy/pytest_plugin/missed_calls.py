"""Calls over HTTP that the recording of a test has no answer for."""

from __future__ import annotations

import pytest

from understudy.wire.log import Miss
from understudy.wording import counted


def fail_if_missed(misses: list[Miss], recording: str) -> None:
    """Fail the test that is running if there are some, and show the first."""
    __tracebackhide__ = True
    if misses:
        told = f"{recording}: {counted(len(misses), 'call')} not recorded; the first, to {misses[0].place}:"
        pytest.fail(f"{told}\n{misses[0]}", pytrace=False)
