"""Reports of scenario runs: on the console, as JSON, JUnit XML or a page, and for GitHub."""

from offbook.report.catalog import reporter_of
from offbook.report.reporter import Reporter, Reporters, report

__all__ = ["Reporter", "Reporters", "report", "reporter_of"]
