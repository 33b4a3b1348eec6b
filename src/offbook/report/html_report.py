"""A run as one page that needs nothing else."""

from __future__ import annotations

from offbook.report.json_report import compact_json
from offbook.report.standalone_page import standalone_page
from offbook.scenarios.result import SuiteResult


def html_report(result: SuiteResult) -> bytes:
    """The run as a page. What was said is in it as JSON; the page's script shows it as text, never as HTML."""
    return standalone_page("offbook.report", compact_json(result))
