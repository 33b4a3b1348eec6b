"""An exploration as GitHub shows it: annotations of findings, and a summary of the step."""

from __future__ import annotations

from pathlib import Path
from typing import TextIO

from offbook.explore.exploration import Exploration, Explored
from offbook.report.exploration.account import Account, Manner
from offbook.report.exploration.exploration_markdown import exploration_markdown
from offbook.report.exploration.findings import Finding, findings_of
from offbook.report.step_summary import StepSummary
from offbook.report.wording import cut_lines, fit_for_log, on_one_line
from offbook.report.workflow_command import error_command, give
from offbook.wording import counted

MAX_ANNOTATIONS = 10  # GitHub shows no more of one step
MAX_TITLE_CHARS = 200
MAX_EVIDENCE_LINES = 20
MAX_COLUMNS = 240


class ExplorationGithubReporter:
    """At the end prints an `::error` command for each finding, and adds Markdown to the step's summary.

    Args:
        summary: the file that GitHub names in GITHUB_STEP_SUMMARY; without it there is no summary.
        out: where the commands go; by default standard output.
    """

    def __init__(self, manner: Manner, summary: Path | None = None, *, out: TextIO | None = None) -> None:
        self._manner, self._path, self._out = manner, summary, out

    def begin(self, exploration: Exploration, cases: int) -> None:
        StepSummary(self._path).add("")

    def told(self, explored: Explored) -> None:
        pass

    def finish(self, exploration: Exploration, *, is_complete: bool = True) -> None:
        account = self._manner.account(exploration, is_complete=is_complete)
        for finding in findings_of(exploration)[:MAX_ANNOTATIONS]:
            give(_command(finding, account), self._out)
        StepSummary(self._path).add(exploration_markdown(account))


def _command(finding: Finding, account: Account) -> str:
    title = f"{account.exploration.subject}: {finding.verdict} in {counted(len(finding.explored), 'case')}"
    evidence = cut_lines("\n".join(finding.evidence), lines=MAX_EVIDENCE_LINES, columns=MAX_COLUMNS)
    lines = [fit_for_log(str(finding.first)), *evidence, fit_for_log(account.reproduce(finding.first))]
    return error_command("\n".join(lines), {"title": on_one_line(title, MAX_TITLE_CHARS)})
