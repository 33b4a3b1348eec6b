"""Scenario runs and explorations on GitHub: an annotation for each failure, and a Markdown step summary."""

from __future__ import annotations

import html
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TextIO

from offbook.errors import InputError
from offbook.explore.compare import ExplorationComparison
from offbook.explore.explorer import CaseResult, Exploration
from offbook.files import open_output
from offbook.recording.redact.rules import mask_shown
from offbook.report.exploration.heatmap import VERDICT_STYLES
from offbook.report.exploration.report_input import (
    FindingGroup,
    ReportInput,
    ReportOptions,
    comparison_totals,
    describe_change,
    exploration_measures,
    exploration_notes,
    exploration_totals,
    group_findings,
)
from offbook.report.reporter import cut_lines, encodable, log_safe, one_line
from offbook.report.scenarios.figures import (
    causes_of,
    compare_agents,
    failure_notes,
    figures_of,
    parse_location,
    scenario_title,
    suite_totals,
)
from offbook.scenarios.result import ScenarioResult, SuiteResult
from offbook.text import format_usd, pluralize

MAX_TITLE_CHARS = 200
MAX_BYTES = 1_000_000  # GitHub drops a summary of more than 1024 KiB
_PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")


def error_command(message: str, properties: Mapping[str, str]) -> str:
    """Return the command that shows an error, without properties that are empty."""
    escaped = {name: _escape_data(mask_shown(value)) for name, value in properties.items() if value}
    written = ",".join(f"{name}={value.replace(':', '%3A').replace(',', '%2C')}" for name, value in escaped.items())
    return f"::error {written}::{_escape_data(mask_shown(message))}"


def print_command(command: str, out: TextIO | None = None) -> None:
    """Print a command, by default to stdout, with `?` for characters that its encoding does not have."""
    out = out or sys.stdout
    out.write(encodable(command, out.encoding or "utf-8") + "\n")
    out.flush()


def _escape_data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def escape_markdown(text: str) -> str:
    """Return the text on one line, with Markdown and HTML escaped."""
    return _PUNCTUATION.sub(r"\\\1", one_line(mask_shown(text), MAX_TITLE_CHARS))


def markdown_details(title: str, lines: Iterable[str]) -> str:
    """Return preformatted lines, folded under a title."""
    text = html.escape(mask_shown("\n".join(lines)))
    return f"\n<details><summary>{html.escape(mask_shown(title))}</summary>\n\n<pre>\n{text}\n</pre>\n\n</details>\n"


def markdown_table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table, after an empty line."""
    columns = list(head)
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n" + "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def more_than(count: int, limit: int, noun: str) -> str:
    """Return `… 7 more findings` above `limit`, else nothing."""
    return f"… {pluralize(count - limit, f'more {noun}')}" if count > limit else ""


class StepSummary:
    """Appends to the file that GitHub names in GITHUB_STEP_SUMMARY, up to its limit; without a path, does nothing."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._bytes = path.stat().st_size if path is not None and path.exists() else 0

    def add(self, text: str, *, reserve: int = 0) -> None:
        """Append the text, if `reserve` bytes remain free after it.

        Raises:
            InputError: the file cannot be written.
        """
        data = text.encode("utf-8", "replace")
        if self._path is None or self._bytes + len(data) + reserve > MAX_BYTES:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with open(open_output(self._path, append=True), "ab") as file:  # noqa: PTH123 - a descriptor has no path
                file.write(data)
        except OSError as error:
            raise InputError(str(error.strerror), source=str(self._path)) from error
        self._bytes += len(data)


MAX_CAUSES = 50
MAX_MESSAGE_CHARS = 3000
RESERVED_FOR_TOTALS = 100_000
MARKS = {True: "✅", False: "❌"}
TABLE_HEAD = "## Scenarios\n" + markdown_table(("", "scenario", "agent", "passed", "rate (95 %)", "cost $"), [])


def markdown_row(scenario: ScenarioResult) -> str:
    """Return the row of a scenario in the table that `TABLE_HEAD` begins."""
    figures = figures_of(scenario)
    cells = (
        MARKS[scenario.passed],
        escape_markdown(scenario.name),
        escape_markdown(scenario.agent),
        figures.passed_of_runs,
        figures.rate,
        format_usd(figures.cost_usd),
    )
    return f"| {' | '.join(cells)} |\n"


def markdown_totals(result: SuiteResult) -> str:
    """Return the part below the table: the totals, mocks never called, the comparison of agents, and causes."""
    partial = "" if result.is_complete else "**The run ended early: this report is partial.** "
    never = "".join(map(_never_called, result.scenarios))
    return f"\n{partial}{suite_totals(result)}\n{never}{_agents(result)}{_causes(result)}"


def markdown_failures(scenario: ScenarioResult) -> str:
    """Return the failures of a scenario, folded; nothing if it passed."""
    notes = list(failure_notes(scenario))
    if not notes:
        return ""
    lines = (line for note in notes for line in (note.headline, *(f"  {line}" for line in note.detail)))
    return markdown_details(f"{MARKS[False]} {scenario_title(scenario, MAX_TITLE_CHARS)}", lines)


def _never_called(scenario: ScenarioResult) -> str:
    if not scenario.never_called:
        return ""
    mocks = escape_markdown(", ".join(scenario.never_called))
    return f"\nMocks never called in {escape_markdown(scenario.name)}: {mocks}\n"


def _agents(result: SuiteResult) -> str:
    comparison = compare_agents(result)
    if not comparison.is_worth_showing:
        return ""
    rows = ([escape_markdown(row.name), *map(_cell, row.results)] for row in comparison.rows)
    return "\n### Agents\n" + markdown_table(["scenario", *map(escape_markdown, comparison.agents)], rows)


def _causes(result: SuiteResult) -> str:
    """Return the first causes. The totals must stay small enough to be shown."""
    causes = list(causes_of(result))
    if not causes:
        return ""
    lines = [f"**{each.severity}** {escape_markdown(each.title)} ({escape_markdown(each.where)})" for each in causes]
    more = more_than(len(causes), MAX_CAUSES, "cause")
    shown = [*lines[:MAX_CAUSES], *([more] if more else [])]
    return "\n### Findings by cause\n\n" + "".join(f"- {line}\n" for line in shown)


def _cell(scenario: ScenarioResult | None) -> str:
    if scenario is None:
        return ""
    figures = figures_of(scenario)
    return " ".join(part for part in (MARKS[scenario.passed], figures.passed_of_runs, figures.rate) if part)


class GithubReporter:
    """Prints an `::error` command for each failed scenario, and appends Markdown to the step summary.

    It appends a row when a scenario ends, and the rest at the end of the run.

    Args:
        summary: the file that GitHub names in GITHUB_STEP_SUMMARY; without it there is no summary.
        out: where the commands are printed; stdout by default.
    """

    def __init__(self, summary: Path | None = None, *, out: TextIO | None = None) -> None:
        self._path, self._out = summary, out
        self._summary = StepSummary(None)

    def begin(self, scenarios: int) -> None:
        self._summary = StepSummary(self._path)
        self._summary.add(f"\n{TABLE_HEAD}")

    def on_scenario(self, scenario: ScenarioResult) -> None:
        if not scenario.passed:
            print_command(error_annotation(scenario), self._out)
        self._summary.add(markdown_row(scenario), reserve=RESERVED_FOR_TOTALS)

    def finish(self, result: SuiteResult) -> None:
        self._summary.add(markdown_totals(result))
        for scenario in result.scenarios:
            self._summary.add(markdown_failures(scenario))


def error_annotation(scenario: ScenarioResult) -> str:
    """Return the workflow command that shows a scenario's failures at its declaration."""
    location = parse_location(scenario.source)
    properties = {
        "file": log_safe(location.file),
        "line": str(location.line or ""),
        "title": scenario_title(scenario, MAX_TITLE_CHARS),
    }
    lines = (line for note in failure_notes(scenario) for line in (note.headline, *note.detail))
    return error_command("\n".join(lines)[:MAX_MESSAGE_CHARS], properties)


MAX_ANNOTATIONS = 10  # GitHub shows no more for one step
MAX_FINDINGS = 50
MAX_CHANGES = 50
MAX_EVIDENCE_LINES = 20
MAX_COLUMNS = 240


def exploration_markdown(report_input: ReportInput) -> str:
    """Return the count of each verdict, the findings, and the changes since an earlier exploration."""
    exploration = report_input.exploration
    partial = "" if report_input.is_complete else "**The exploration ended early: this report is partial.** "
    rows = [
        (escape_markdown(VERDICT_STYLES[label].letter), label, f"{count:,}", VERDICT_STYLES[label].meaning)
        for label, count in exploration.counts.items()
    ]
    table = markdown_table(("", "verdict", "cases", ""), rows) if rows else ""
    head = f"\n## Exploration of {escape_markdown(exploration.subject)}\n\n{partial}{exploration_totals(exploration)}\n"
    notes = (*exploration_notes(exploration), *exploration_measures(exploration))
    head += "".join(f"\n{escape_markdown(note)}\n" for note in notes)
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
    title = f"{finding.assessment.title}: {one_line(finding.headline, MAX_COLUMNS)}"
    place = f"{one_line(str(finding.first), MAX_COLUMNS)}{cases}"
    command = one_line(report_input.reproduce(finding.first), 4 * MAX_COLUMNS)
    return markdown_details(
        f"{VERDICT_STYLES[finding.assessment.label].letter} {title}", [place, *_evidence(finding), "", command]
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
    title = (
        f"{report_input.exploration.subject}: {finding.assessment.title} in {pluralize(len(finding.results), 'case')}"
    )
    lines = [
        log_safe(finding.headline),
        log_safe(str(finding.first)),
        *_evidence(finding),
        log_safe(report_input.reproduce(finding.first)),
    ]
    return error_command("\n".join(lines), {"title": one_line(title, MAX_TITLE_CHARS)})
