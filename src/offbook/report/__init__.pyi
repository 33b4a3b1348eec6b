"""Reports of scenario runs: on the console, as JSON, JUnit XML or an HTML page, and for GitHub."""

from offbook.report.scenarios.reporter import Reporter as Reporter
from offbook.report.scenarios.reporter import Reporters as Reporters
from offbook.report.scenarios.reporter import report as report
from offbook.report.scenarios.reporter import reporter_of as reporter_of
