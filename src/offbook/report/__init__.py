"""Reports of scenario runs: on the console, as JSON, JUnit XML or an HTML page, and for GitHub."""

from offbook.report.scenarios.reporter import Reporter, Reporters, report, reporter_of

__all__ = ["Reporter", "Reporters", "report", "reporter_of"]
