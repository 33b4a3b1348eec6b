"""Reports of explorations: on the console, as JSON, JUnit XML or an HTML page, and for GitHub."""

from offbook.report.exploration.json_report import load_exploration
from offbook.report.exploration.reporter import (
    ExplorationReporter,
    ExplorationReporters,
    exploration_reporter_of,
    report_exploration,
)

__all__ = [
    "ExplorationReporter",
    "ExplorationReporters",
    "exploration_reporter_of",
    "load_exploration",
    "report_exploration",
]
