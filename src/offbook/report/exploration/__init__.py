"""Reports of explorations: on the console, as JSON, JUnit XML or a page, and for GitHub."""

from offbook.report.exploration.catalog import exploration_reporter_of
from offbook.report.exploration.exploration_json import load_exploration
from offbook.report.exploration.reporter import ExplorationReporter, ExplorationReporters, report_exploration

__all__ = [
    "ExplorationReporter",
    "ExplorationReporters",
    "exploration_reporter_of",
    "load_exploration",
    "report_exploration",
]
