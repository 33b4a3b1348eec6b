"""Reports a scenario run on the console: a line for each scenario, its failures, the totals and the causes."""

from __future__ import annotations

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Column, Table
from rich.text import Text

from offbook.report.reporter import PLAIN_COLUMNS, encodable, one_line, stdout_console
from offbook.report.scenarios.figures import (
    AgentComparison,
    causes_of,
    compare_agents,
    failure_notes,
    figures_of,
    grouped_failures,
    scenario_title,
    suite_totals,
)
from offbook.scenarios.result import ScenarioResult, SuiteResult
from offbook.text import pluralize

MAX_NAME_CHARS = 80
MAX_NOTES = 10
MAX_CAUSES = 10
STYLES = {True: "green", False: "bold red"}
MARKS = {True: "✓", False: "✗"}
ASCII_MARKS = {True: "+", False: "x"}


class ConsoleReporter:
    """Prints to a console. On a terminal, the last line shows the progress of the run.

    Text of conversations cannot control the terminal or the log of a GitHub workflow.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or stdout_console()
        self._is_wide = self._console.encoding.startswith("utf")
        self._marks, self._bar = (MARKS, "│") if self._is_wide else (ASCII_MARKS, "|")
        self._expected = self._ended = self._failed = 0
        spinner = Spinner("dots" if self._is_wide else "line")
        self._live = Live(spinner, console=self._console, refresh_per_second=10, transient=True)
        self._spinner = spinner

    def begin(self, scenarios: int) -> None:
        self._expected, self._ended, self._failed = scenarios, 0, 0
        if self._console.is_terminal:
            self._spinner.update(text=self._progress())
            self._live.start(refresh=True)

    def on_scenario(self, scenario: ScenarioResult) -> None:
        self._ended += 1
        self._failed += not scenario.passed
        self._spinner.update(text=self._progress())
        self._print_scenario(scenario)

    def finish(self, result: SuiteResult) -> None:
        self._live.stop()
        self._print()
        for scenario in result.scenarios:
            if scenario.never_called:
                names = one_line(", ".join(scenario.never_called), PLAIN_COLUMNS)
                self._print((f"mocks never called in {scenario_title(scenario, MAX_NAME_CHARS)}: ", "yellow"), names)
        comparison = compare_agents(result)
        if comparison.is_worth_showing:
            self._console.print(self._table(comparison))
            self._print()
        if not result.is_complete:
            self._print(("ended early: this report is partial", "bold red"))
        self._print((suite_totals(result), STYLES[result.passed]))
        self._print_causes(result)

    def _progress(self) -> Text:
        failed = f", {self._failed:,} failed" if self._failed else ""
        return Text(f"{self._ended:,} of {pluralize(self._expected, 'scenario')}{failed}", style="dim")

    def _print_scenario(self, scenario: ScenarioResult) -> None:
        figures = figures_of(scenario)
        name = one_line(scenario.name, MAX_NAME_CHARS)
        agent = one_line(scenario.agent, MAX_NAME_CHARS)
        outcome = "  ".join(part for part in (agent, figures.passed_of_runs, figures.rate) if part)
        usage = "".join(f"  {part}" for part in figures.usage)
        style = STYLES[scenario.passed]
        self._print((f"{self._marks[scenario.passed]} ", style), (f"{name}  ", "bold"), outcome, (usage, "dim"))
        for metric, spread in figures.metrics.items():
            title = one_line(metric, MAX_NAME_CHARS)
            self._print((f"  {self._bar} {title} {spread.mean:.2f} ± {spread.deviation:.2f}", "dim"))
        notes = list(grouped_failures(scenario))
        for note in notes[:MAX_NOTES]:
            self._print((f"  {self._bar} ", "red"), note.headline)
            for line in note.detail:
                self._print((f"  {self._bar}   ", "red"), line)
        if len(notes) > MAX_NOTES:
            self._print((f"  {self._bar} … {pluralize(len(notes) - MAX_NOTES, 'more failure')}", "red"))

    def _print_causes(self, result: SuiteResult) -> None:
        """Print the causes, if there is more than one failure."""
        causes = list(causes_of(result))
        if not causes or sum(1 for scenario in result.scenarios for _ in failure_notes(scenario)) < 2:
            return
        self._print()
        self._print(("findings by cause", "bold"))
        for cause in causes[:MAX_CAUSES]:
            severity = (f"  {cause.severity.ljust(8)}  ", "red")
            self._print(severity, cause.title, (f"  {cause.where}", "dim"))
        if len(causes) > MAX_CAUSES:
            self._print((f"  … {pluralize(len(causes) - MAX_CAUSES, 'more cause')}", "red"))

    def _table(self, comparison: AgentComparison) -> Table:
        agents = (one_line(agent, MAX_NAME_CHARS) for agent in comparison.agents)
        heads = (Column(Text(self._encodable(head))) for head in ("scenario", *agents))
        table = Table(*heads, box=None, pad_edge=False, header_style="bold")
        for row in comparison.rows:
            name = Text(self._encodable(one_line(row.name, MAX_NAME_CHARS)))
            table.add_row(name, *map(self._cell, row.results))
        return table

    def _cell(self, scenario: ScenarioResult | None) -> Text:
        if scenario is None:
            return Text("")
        figures = figures_of(scenario)
        outcome = f"{self._marks[scenario.passed]} {figures.passed_of_runs}  {figures.rate}"
        return Text(self._encodable(outcome.rstrip()), style=STYLES[scenario.passed])

    def _print(self, *parts: str | tuple[str, str]) -> None:
        encoded = [
            self._encodable(part) if isinstance(part, str) else (self._encodable(part[0]), part[1]) for part in parts
        ]
        self._console.print(Text.assemble(*encoded), soft_wrap=True)

    def _encodable(self, text: str) -> str:
        return text if self._is_wide else encodable(text, self._console.encoding)
