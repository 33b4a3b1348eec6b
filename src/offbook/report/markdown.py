"""A run as Markdown, in pieces that may be added to a page one after the other."""

from __future__ import annotations

import html
import re

from offbook.report.cause import causes_of
from offbook.report.comparison import comparison_of
from offbook.report.figures import figures_of
from offbook.report.note import notes_of
from offbook.report.wording import on_one_line, totals
from offbook.scenarios.result import ScenarioResult, SuiteResult
from offbook.wording import counted, dollars

MAX_NAME_CHARS = 200
MAX_CAUSES = 50
MARKS = {True: "✅", False: "❌"}
PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")
HEAD = "## Scenarios\n\n| | scenario | agent | passed | rate (95 %) | cost $ |\n| --- | --- | --- | --- | --- | --- |\n"


def row_of(scenario: ScenarioResult) -> str:
    """A line of the table that HEAD begins."""
    figures = figures_of(scenario)
    cells = (
        MARKS[scenario.passed],
        escaped(scenario.name),
        escaped(scenario.agent),
        figures.passed_of_runs,
        figures.rate,
        dollars(figures.cost_usd),
    )
    return f"| {' | '.join(cells)} |\n"


def totals_of(result: SuiteResult) -> str:
    """What comes below the table: the totals, mocks never called, agents beside each other, and causes."""
    cut_off = "" if result.is_complete else "**The run was cut off: this is what had ended by then.** "
    never = "".join(map(_never_called, result.scenarios))
    return f"\n{cut_off}{totals(result)}\n{never}{_comparison(result)}{_causes(result)}"


def failures_of(scenario: ScenarioResult) -> str:
    """Why a scenario did not pass, folded; nothing if it did."""
    notes = list(notes_of(scenario))
    if not notes:
        return ""
    agent = f" ({scenario.agent})" if scenario.agent else ""
    title = html.escape(on_one_line(f"{scenario.name}{agent}", MAX_NAME_CHARS))
    lines = (line for note in notes for line in (note.headline, *(f"  {line}" for line in note.detail)))
    text = html.escape("\n".join(lines))
    return f"\n<details><summary>{MARKS[False]} {title}</summary>\n\n<pre>\n{text}\n</pre>\n\n</details>\n"


def escaped(text: str) -> str:
    """The text on one line, in which nothing means anything to Markdown or HTML."""
    return PUNCTUATION.sub(r"\\\1", on_one_line(text, MAX_NAME_CHARS))


def _never_called(scenario: ScenarioResult) -> str:
    if not scenario.never_called:
        return ""
    return f"\nMocks never called in {escaped(scenario.name)}: {escaped(', '.join(scenario.never_called))}\n"


def _comparison(result: SuiteResult) -> str:
    comparison = comparison_of(result)
    if not comparison.is_worth_showing:
        return ""
    rows = [["scenario", *map(escaped, comparison.agents)], ["---"] * (len(comparison.agents) + 1)]
    rows += [[escaped(row.name), *map(_cell, row.results)] for row in comparison.rows]
    return "\n### Agents\n\n" + "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _causes(result: SuiteResult) -> str:
    """The causes, not too many: the totals must stay small enough to be shown."""
    lines = [f"- **{each.severity}** {escaped(each.title)} ({escaped(each.where)})\n" for each in causes_of(result)]
    if not lines:
        return ""
    left = len(lines) - MAX_CAUSES
    more = f"- {counted(left, 'more cause')}\n" if left > 0 else ""
    return "\n### Findings by cause\n\n" + "".join(lines[:MAX_CAUSES]) + more


def _cell(scenario: ScenarioResult | None) -> str:
    if scenario is None:
        return ""
    figures = figures_of(scenario)
    return " ".join(part for part in (MARKS[scenario.passed], figures.passed_of_runs, figures.rate) if part)
