"""Reports of explorations: on the console, as JSON, JUnit XML or an HTML page, and for GitHub."""

from offbook.report.exploration.json_report import load_exploration as load_exploration
from offbook.report.exploration.reporter import ExplorationReporter as ExplorationReporter
from offbook.report.exploration.reporter import ExplorationReporters as ExplorationReporters
from offbook.report.exploration.reporter import exploration_reporter_of as exploration_reporter_of
from offbook.report.exploration.reporter import report_exploration as report_exploration
