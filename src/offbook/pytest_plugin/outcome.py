"""What is known of a test while it runs: how it is recorded, whether it has passed, and what it did."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from offbook.pytest_plugin.plan import RecordingPlan
    from offbook.pytest_plugin.tally import Tally

PLAN: pytest.StashKey[RecordingPlan] = pytest.StashKey()
PASSED = pytest.StashKey[bool]()
TALLY: pytest.StashKey[Tally] = pytest.StashKey()
REPORTED = "offbook"
"""The attribute of a test's report that tells what it did with its recording; reports of workers keep it."""


def has_passed(item: pytest.Item) -> bool:
    """Whether the test itself has run to its end without a failure."""
    return item.stash.get(PASSED, False)


def tell(report: pytest.TestReport, item: pytest.Item) -> None:
    """Tell on the reports of a test what its recording is, and in the end what it did with it."""
    if report.when == "call":
        item.stash[PASSED] = report.passed
    if report.when == "setup" and PLAN in item.stash:
        setattr(report, REPORTED, {"recording": item.stash[PLAN].location})
    if report.when == "teardown" and TALLY in item.stash:
        setattr(report, REPORTED, item.stash[TALLY].to_dict())
