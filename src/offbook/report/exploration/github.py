"""Reports an exploration to GitHub: an annotation for each finding, and a Markdown step summary."""

from __future__ import annotations

from pathlib import Path
from typing import TextIO

from offbook.explore.compare import ExplorationComparison
from offbook.explore.explorer import CaseResult, Exploration
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
from offbook.report.github import (
    MAX_TITLE_CHARS,
    StepSummary,
    error_command,
    escape_markdown,
    markdown_details,
    markdown_table,
    more_than,
    print_command,
)
from offbook.report.text import cut_lines, log_safe, one_line
from offbook.text import pluralize

MAX_ANNOTATIONS = 10  # GitHub shows no more for one step
MAX_FINDINGS = 50
MAX_CHANGES = 50
MAX_EVIDENCE_LINES = 20
MAX_COLUMNS = 240


def exploration_markdown(report_input: ReportInput) -> str:
    """Return the count of each verdict, the findings, and the changes since an earlier exploration."""
    exploration = report_input.exploration
    partial = "" if report_input.is_complete else "**Interrupted: this report is partial.** "
    rows = [
        (escape_markdown(VERDICT_STYLES[verdict].letter), verdict, f"{count:,}", VERDICT_STYLES[verdict].meaning)
        for verdict, count in exploration.counts.items()
    ]
    table = markdown_table(("", "verdict", "cases", ""), rows) if rows else ""
    head = f"\n## Exploration of {escape_markdown(exploration.subject)}\n\n{partial}{exploration_totals(exploration)}\n"
    return f"{head}{table}{_findings(report_input)}{_comparison(report_input.comparison)}"


def _findings(report_input: ReportInput) -> str:
    findings = group_findings(report_input.exploration)
    if not findings:
        return ""
    shown = "".join(_finding(each, report_input) for each in findings[:MAX_FINDINGS])
    return f"\n### Findings\n{shown}{_more(len(findings), MAX_FINDINGS, 'finding')}"


def _finding(finding: FindingGroup, report_input: ReportInput) -> str:
    """Return a finding, folded: its evidence, and the command that shows it again."""
    cases = "" if len(finding.results) == 1 else f" and {pluralize(len(finding.results) - 1, 'more case')}"
    title = f"{finding.verdict}: {one_line(finding.headline, MAX_COLUMNS)}"
    place = f"{one_line(str(finding.first), MAX_COLUMNS)}{cases}"
    command = one_line(report_input.reproduce(finding.first), 4 * MAX_COLUMNS)
    return markdown_details(
        f"{VERDICT_STYLES[finding.verdict].letter} {title}", [place, *_evidence(finding), "", command]
    )


def _evidence(finding: FindingGroup) -> list[str]:
    return cut_lines("\n".join(finding.evidence), lines=MAX_EVIDENCE_LINES, columns=MAX_COLUMNS)


def _comparison(comparison: ExplorationComparison | None) -> str:
    if comparison is None:
        return ""
    changes = [*comparison.worse, *(each for each in comparison.changes if not each.is_worse)]
    rows = [
        ("worse" if each.is_worse else "", escape_markdown(each.case), describe_change(each))
        for each in changes[:MAX_CHANGES]
    ]
    table = markdown_table(("", "case", "verdict"), rows) if rows else ""
    more = _more(len(changes), MAX_CHANGES, "change")
    return f"\n### Compared with before\n\n{comparison_totals(comparison)}\n{table}{more}"


def _more(count: int, limit: int, noun: str) -> str:
    more = more_than(count, limit, noun)
    return f"\n{more}\n" if more else ""


class ExplorationGithubReporter:
    """Prints an `::error` command for each finding, and appends Markdown to the step summary, at the end.

    Args:
        summary: the file that GitHub names in GITHUB_STEP_SUMMARY; without it there is no summary.
        out: where the commands are printed; stdout by default.
    """

    def __init__(self, options: ReportOptions, summary: Path | None = None, *, out: TextIO | None = None) -> None:
        self._options, self._path, self._out = options, summary, out

    def begin(self, exploration: Exploration, cases: int) -> None:
        StepSummary(self._path).add("")

    def on_case(self, result: CaseResult) -> None:
        pass

    def finish(self, exploration: Exploration, *, is_complete: bool = True) -> None:
        report_input = self._options.report_input(exploration, is_complete=is_complete)
        for finding in group_findings(exploration)[:MAX_ANNOTATIONS]:
            print_command(_annotation(finding, report_input), self._out)
        StepSummary(self._path).add(exploration_markdown(report_input))


def _annotation(finding: FindingGroup, report_input: ReportInput) -> str:
    title = f"{report_input.exploration.subject}: {finding.verdict} in {pluralize(len(finding.results), 'case')}"
    lines = [
        log_safe(finding.headline),
        log_safe(str(finding.first)),
        *_evidence(finding),
        log_safe(report_input.reproduce(finding.first)),
    ]
    return error_command("\n".join(lines), {"title": one_line(title, MAX_TITLE_CHARS)})
