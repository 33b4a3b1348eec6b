"""Reports of explorations: on the console, as JSON, JUnit XML or a page, and for GitHub."""

from understudy.report.exploration.catalog import exploration_reporter_of
from understudy.report.exploration.exploration_json import load_exploration
from understudy.report.exploration.reporter import ExplorationReporter, ExplorationReporters, report_exploration

__all__ = [
    "ExplorationReporter",
    "ExplorationReporters",
    "exploration_reporter_of",
    "load_exploration",
    "report_exploration",
]
