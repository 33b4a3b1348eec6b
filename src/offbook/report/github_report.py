"""A run as GitHub shows it: annotations at the scenarios that failed, and a summary of the step."""

from __future__ import annotations

from pathlib import Path
from typing import TextIO

from offbook.report.markdown import HEAD, failures_of, row_of, totals_of
from offbook.report.note import notes_of
from offbook.report.place import place_of
from offbook.report.step_summary import StepSummary
from offbook.report.wording import fit_for_log, on_one_line
from offbook.report.workflow_command import error_command, give
from offbook.scenarios.result import ScenarioResult, SuiteResult

MAX_TITLE_CHARS = 200
MAX_MESSAGE_CHARS = 3000
KEPT_FOR_TOTALS = 100_000


class GithubReporter:
    """Prints an `::error` command for each scenario that did not pass, and adds Markdown to the step's summary.

    The summary is only ever added to, as its other writers do: a line when a scenario ends, the rest at the end.

    Args:
        summary: the file that GitHub names in GITHUB_STEP_SUMMARY; without it there is no summary.
        out: where the commands go; by default standard output.
    """

    def __init__(self, summary: Path | None = None, *, out: TextIO | None = None) -> None:
        self._path, self._out = summary, out
        self._summary = StepSummary(None)

    def begin(self, scenarios: int) -> None:
        self._summary = StepSummary(self._path)
        self._summary.add(f"\n{HEAD}")

    def told(self, scenario: ScenarioResult) -> None:
        if not scenario.passed:
            give(command_of(scenario), self._out)
        self._summary.add(row_of(scenario), spare=KEPT_FOR_TOTALS)

    def finish(self, result: SuiteResult) -> None:
        self._summary.add(totals_of(result))
        for scenario in result.scenarios:
            self._summary.add(failures_of(scenario))


def command_of(scenario: ScenarioResult) -> str:
    """The workflow command that puts what is wrong with a scenario at the line where it was written."""
    place = place_of(scenario.source)
    agent = f" ({scenario.agent})" if scenario.agent else ""
    properties = {
        "file": fit_for_log(place.file),
        "line": str(place.line or ""),
        "title": on_one_line(f"{scenario.name}{agent}", MAX_TITLE_CHARS),
    }
    lines = (line for note in notes_of(scenario) for line in (note.headline, *note.detail))
    return error_command("\n".join(lines)[:MAX_MESSAGE_CHARS], properties)
