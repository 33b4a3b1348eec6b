"""Calls over HTTP that the recording of a test has no answer for."""

from __future__ import annotations

import pytest

from offbook.pytest_plugin.record_again import record_again
from offbook.wire.log import Miss
from offbook.wording import counted


def fail_if_missed(misses: list[Miss], recording: str, node_id: str) -> None:
    """Fail the test that is running if there are some: show the first, and how to record the test again.

    That is not told if a fault has struck before every miss: what follows one is not to be recorded.
    """
    __tracebackhide__ = True
    if not misses:
        return
    told = f"{recording}: {counted(len(misses), 'call')} not recorded; the first, to {misses[0].place}:\n{misses[0]}"
    if not all(miss.is_after_fault for miss in misses):
        told += f"\n  hint: {record_again(node_id)}"
    pytest.fail(told, pytrace=False)
