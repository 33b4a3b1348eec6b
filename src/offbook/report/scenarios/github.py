"""Reports a scenario run to GitHub: an annotation for each failed scenario, and a Markdown step summary."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import TextIO

from offbook.report.github import StepSummary, error_command, print_command
from offbook.report.scenarios.failures import causes_of, failure_notes, parse_location
from offbook.report.scenarios.figures import compare_agents, figures_of
from offbook.report.text import log_safe, one_line, suite_totals
from offbook.scenarios.result import ScenarioResult, SuiteResult
from offbook.text import format_usd, pluralize

MAX_NAME_CHARS = 200
MAX_CAUSES = 50
MARKS = {True: "✅", False: "❌"}
PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")
TABLE_HEAD = (
    "## Scenarios\n\n| | scenario | agent | passed | rate (95 %) | cost $ |\n| --- | --- | --- | --- | --- | --- |\n"
)


def markdown_row(scenario: ScenarioResult) -> str:
    """A line of the table that HEAD begins."""
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
    """What comes below the table: the totals, mocks never called, agents beside each other, and causes."""
    cut_off = "" if result.is_complete else "**The run was cut off: this is what had ended by then.** "
    never = "".join(map(_never_called, result.scenarios))
    return f"\n{cut_off}{suite_totals(result)}\n{never}{_comparison(result)}{_causes(result)}"


def markdown_failures(scenario: ScenarioResult) -> str:
    """Why a scenario did not pass, folded; nothing if it did."""
    notes = list(failure_notes(scenario))
    if not notes:
        return ""
    agent = f" ({scenario.agent})" if scenario.agent else ""
    title = html.escape(one_line(f"{scenario.name}{agent}", MAX_NAME_CHARS))
    lines = (line for note in notes for line in (note.headline, *(f"  {line}" for line in note.detail)))
    text = html.escape("\n".join(lines))
    return f"\n<details><summary>{MARKS[False]} {title}</summary>\n\n<pre>\n{text}\n</pre>\n\n</details>\n"


def escape_markdown(text: str) -> str:
    """The text on one line, in which nothing means anything to Markdown or HTML."""
    return PUNCTUATION.sub(r"\\\1", one_line(text, MAX_NAME_CHARS))


def _never_called(scenario: ScenarioResult) -> str:
    if not scenario.never_called:
        return ""
    mocks = escape_markdown(", ".join(scenario.never_called))
    return f"\nMocks never called in {escape_markdown(scenario.name)}: {mocks}\n"


def _comparison(result: SuiteResult) -> str:
    comparison = compare_agents(result)
    if not comparison.is_worth_showing:
        return ""
    rows = [["scenario", *map(escape_markdown, comparison.agents)], ["---"] * (len(comparison.agents) + 1)]
    rows += [[escape_markdown(row.name), *map(_cell, row.results)] for row in comparison.rows]
    return "\n### Agents\n\n" + "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _causes(result: SuiteResult) -> str:
    """The causes, not too many: the totals must stay small enough to be shown."""
    lines = [
        f"- **{each.severity}** {escape_markdown(each.title)} ({escape_markdown(each.where)})\n"
        for each in causes_of(result)
    ]
    if not lines:
        return ""
    left = len(lines) - MAX_CAUSES
    more = f"- {pluralize(left, 'more cause')}\n" if left > 0 else ""
    return "\n### Findings by cause\n\n" + "".join(lines[:MAX_CAUSES]) + more


def _cell(scenario: ScenarioResult | None) -> str:
    if scenario is None:
        return ""
    figures = figures_of(scenario)
    return " ".join(part for part in (MARKS[scenario.passed], figures.passed_of_runs, figures.rate) if part)


MAX_TITLE_CHARS = 200
MAX_MESSAGE_CHARS = 3000
RESERVED_FOR_TOTALS = 100_000


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
        self._summary.add(f"\n{TABLE_HEAD}")

    def told(self, scenario: ScenarioResult) -> None:
        if not scenario.passed:
            print_command(error_annotation(scenario), self._out)
        self._summary.add(markdown_row(scenario), spare=RESERVED_FOR_TOTALS)

    def finish(self, result: SuiteResult) -> None:
        self._summary.add(markdown_totals(result))
        for scenario in result.scenarios:
            self._summary.add(markdown_failures(scenario))


def error_annotation(scenario: ScenarioResult) -> str:
    """The workflow command that puts what is wrong with a scenario at the line where it was written."""
    place = parse_location(scenario.source)
    agent = f" ({scenario.agent})" if scenario.agent else ""
    properties = {
        "file": log_safe(place.file),
        "line": str(place.line or ""),
        "title": one_line(f"{scenario.name}{agent}", MAX_TITLE_CHARS),
    }
    lines = (line for note in failure_notes(scenario) for line in (note.headline, *note.detail))
    return error_command("\n".join(lines)[:MAX_MESSAGE_CHARS], properties)
