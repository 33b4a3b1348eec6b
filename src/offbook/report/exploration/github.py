"""Reports an exploration to GitHub: an annotation for each finding, and a Markdown step summary."""

from __future__ import annotations

import html
from pathlib import Path
from typing import TextIO

from offbook.explore.compare import ExplorationComparison
from offbook.explore.runner import CaseResult, Exploration
from offbook.report.exploration.heatmap import VERDICT_STYLES
from offbook.report.exploration.report_input import (
    FindingGroup,
    ReportInput,
    ReportOptions,
    comparison_totals,
    describe_change,
    exploration_totals,
    group_findings,
)
from offbook.report.github import StepSummary, error_command, print_command
from offbook.report.scenarios.github import escape_markdown
from offbook.report.text import cut_lines, log_safe, one_line
from offbook.text import pluralize

MAX_FINDINGS = 50
MAX_CHANGES = 50
MAX_EVIDENCE_LINES = 20
MAX_COLUMNS = 240


def exploration_markdown(report_input: ReportInput) -> str:
    """What became of how many cases, the findings, and what differs from before."""
    exploration = report_input.exploration
    cut_off = "" if report_input.is_complete else "**Cut off: this is what had ended by then.** "
    rows = [
        f"| {escape_markdown(style.letter)} | {verdict} | {count:,} | {style.meaning} |\n"
        for verdict, count in exploration.counts.items()
        for style in [VERDICT_STYLES[verdict]]
    ]
    table = f"\n| | verdict | cases | |\n| --- | --- | --- | --- |\n{''.join(rows)}" if rows else ""
    head = f"\n## Exploration of {escape_markdown(exploration.subject)}\n\n{cut_off}{exploration_totals(exploration)}\n"
    return f"{head}{table}{_findings(report_input)}{_comparison(report_input.comparison)}"


def _findings(report_input: ReportInput) -> str:
    findings = group_findings(report_input.exploration)
    if not findings:
        return ""
    left = len(findings) - MAX_FINDINGS
    more = f"\n… {pluralize(left, 'more finding')}\n" if left > 0 else ""
    told = "".join(_finding(each, report_input) for each in findings[:MAX_FINDINGS])
    return f"\n### Findings\n{told}{more}"


def _finding(finding: FindingGroup, report_input: ReportInput) -> str:
    """A finding, folded: what it rests on, and how it is seen again."""
    cases = "" if len(finding.results) == 1 else f" and {pluralize(len(finding.results) - 1, 'more case')}"
    title = f"{finding.verdict}: {one_line(str(finding.first), MAX_COLUMNS)}{cases}"
    evidence = cut_lines("\n".join(finding.evidence), lines=MAX_EVIDENCE_LINES, columns=MAX_COLUMNS)
    text = "\n".join([*evidence, "", one_line(report_input.reproduce(finding.first), 4 * MAX_COLUMNS)])
    sign = VERDICT_STYLES[finding.verdict].letter
    summary = html.escape(f"{sign} {title}")
    return f"\n<details><summary>{summary}</summary>\n\n<pre>\n{html.escape(text)}\n</pre>\n\n</details>\n"


def _comparison(comparison: ExplorationComparison | None) -> str:
    if comparison is None:
        return ""
    changes = [*comparison.worse, *(each for each in comparison.changes if not each.is_worse)]
    rows = [
        f"| {'worse' if each.is_worse else ''} | {escape_markdown(each.case)} | {describe_change(each)} |\n"
        for each in changes[:MAX_CHANGES]
    ]
    left = len(changes) - MAX_CHANGES
    more = f"\n… {pluralize(left, 'more change')}\n" if left > 0 else ""
    table = f"\n| | case | verdict |\n| --- | --- | --- |\n{''.join(rows)}" if rows else ""
    return f"\n### Compared with before\n\n{comparison_totals(comparison)}\n{table}{more}"


MAX_ANNOTATIONS = 10  # GitHub shows no more of one step
MAX_TITLE_CHARS = 200
MAX_ANNOTATION_LINES = 20
MAX_ANNOTATION_COLUMNS = 240


class ExplorationGithubReporter:
    """At the end prints an `::error` command for each finding, and adds Markdown to the step's summary.

    Args:
        summary: the file that GitHub names in GITHUB_STEP_SUMMARY; without it there is no summary.
        out: where the commands go; by default standard output.
    """

    def __init__(self, manner: ReportOptions, summary: Path | None = None, *, out: TextIO | None = None) -> None:
        self._report_options, self._path, self._out = manner, summary, out

    def begin(self, exploration: Exploration, cases: int) -> None:
        StepSummary(self._path).add("")

    def told(self, explored: CaseResult) -> None:
        pass

    def finish(self, exploration: Exploration, *, is_complete: bool = True) -> None:
        report_input = self._report_options.report_input(exploration, is_complete=is_complete)
        for finding in group_findings(exploration)[:MAX_ANNOTATIONS]:
            print_command(_annotation(finding, report_input), self._out)
        StepSummary(self._path).add(exploration_markdown(report_input))


def _annotation(finding: FindingGroup, report_input: ReportInput) -> str:
    title = f"{report_input.exploration.subject}: {finding.verdict} in {pluralize(len(finding.results), 'case')}"
    evidence = cut_lines("\n".join(finding.evidence), lines=MAX_ANNOTATION_LINES, columns=MAX_ANNOTATION_COLUMNS)
    lines = [log_safe(str(finding.first)), *evidence, log_safe(report_input.reproduce(finding.first))]
    return error_command("\n".join(lines), {"title": one_line(title, MAX_TITLE_CHARS)})
