"""The report of a test that failed after an unrecorded call: what differs, and the frames of its own code."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from _pytest._code.code import ExceptionRepr, TracebackEntry

_FOREIGN = (Path(os.__file__).parent, Path(__file__).parent.parent)
"""The folders of the standard library and of offbook."""


def report_missed(
    report: pytest.TestReport, item: pytest.Item, raised: pytest.ExceptionInfo[BaseException], missed: str
) -> None:
    """Add the unrecorded calls to the report; if the error is about them, shorten it to the frames of the project.

    The traceback is left alone if the user chose its style.
    """
    shown, (_, first, *more) = str(raised.value), missed.splitlines()
    if first.partition(": ")[2] not in shown:
        report.sections.append(("offbook", missed))
        return
    if item.config.getoption("tbstyle", "auto") == "auto" and not item.config.getoption("fulltrace", False):
        report.longrepr = _short(raised)
    if more and more[-1] not in shown:
        report.sections.append(("offbook", more[-1].strip()))


def _short(raised: pytest.ExceptionInfo[BaseException]) -> ExceptionRepr:
    own = raised.traceback.filter(_is_own)
    if own:
        raised.traceback = own
    return raised.getrepr(style="short", chain=False)


def _is_own(entry: TracebackEntry) -> bool:
    file = Path(entry.path)
    return "site-packages" not in file.parts and not any(file.is_relative_to(folder) for folder in _FOREIGN)
