"""Reports a scenario run to GitHub: an annotation for each failed scenario, and a Markdown step summary."""

from __future__ import annotations

from pathlib import Path
from typing import TextIO

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
from offbook.report.scenarios.figures import (
    causes_of,
    compare_agents,
    failure_notes,
    figures_of,
    parse_location,
    suite_totals,
)
from offbook.report.text import log_safe, one_line
from offbook.scenarios.result import ScenarioResult, SuiteResult
from offbook.text import format_usd

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
    """Return what follows the table: the totals, mocks never called, the comparison of agents, and causes."""
    partial = "" if result.is_complete else "**The run was interrupted: this report is partial.** "
    never = "".join(map(_never_called, result.scenarios))
    return f"\n{partial}{suite_totals(result)}\n{never}{_comparison(result)}{_causes(result)}"


def markdown_failures(scenario: ScenarioResult) -> str:
    """Return why a scenario failed, folded; nothing if it passed."""
    notes = list(failure_notes(scenario))
    if not notes:
        return ""
    lines = (line for note in notes for line in (note.headline, *(f"  {line}" for line in note.detail)))
    return markdown_details(f"{MARKS[False]} {_title(scenario)}", lines)


def _title(scenario: ScenarioResult) -> str:
    agent = f" ({scenario.agent})" if scenario.agent else ""
    return one_line(f"{scenario.name}{agent}", MAX_TITLE_CHARS)


def _never_called(scenario: ScenarioResult) -> str:
    if not scenario.never_called:
        return ""
    mocks = escape_markdown(", ".join(scenario.never_called))
    return f"\nMocks never called in {escape_markdown(scenario.name)}: {mocks}\n"


def _comparison(result: SuiteResult) -> str:
    comparison = compare_agents(result)
    if not comparison.is_worth_showing:
        return ""
    rows = ([escape_markdown(row.name), *map(_cell, row.results)] for row in comparison.rows)
    return "\n### Agents\n" + markdown_table(["scenario", *map(escape_markdown, comparison.agents)], rows)


def _causes(result: SuiteResult) -> str:
    """Return the first causes: the totals must stay small enough to be shown."""
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
    """Return the workflow command that shows why a scenario failed at the line where it is declared."""
    location = parse_location(scenario.source)
    properties = {
        "file": log_safe(location.file),
        "line": str(location.line or ""),
        "title": _title(scenario),
    }
    lines = (line for note in failure_notes(scenario) for line in (note.headline, *note.detail))
    return error_command("\n".join(lines)[:MAX_MESSAGE_CHARS], properties)
