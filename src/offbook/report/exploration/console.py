"""Reports an exploration on the console: a live heatmap, then findings, coverage and comparison."""

from __future__ import annotations

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from offbook.explore.compare import ExplorationComparison
from offbook.explore.explorer import CaseResult, Exploration, coverage_of
from offbook.explore.schedule import Pace, describe_time
from offbook.report.exploration.heatmap import HeatmapDrawing, heatmap_of
from offbook.report.exploration.report_input import (
    EndedCases,
    FindingGroup,
    ReportInput,
    ReportOptions,
    comparison_totals,
    describe_change,
    exploration_measures,
    exploration_notes,
    exploration_totals,
    group_findings,
    undeclared_errors,
    verdict_counts,
)
from offbook.report.reporter import cut_lines, encodable, one_line, stderr_console, stdout_console
from offbook.text import pluralize

BAR_COLUMNS = 30
FIRST_CASES = 10
"""The number of cases before the first line without a terminal."""
LINES_BESIDE = 4


class LiveHeatmap:
    """Shows the heatmap so far, a progress bar, the count of each verdict, and the remaining time on a terminal.

    A terminal with too few lines for the heatmap shows only the rest. Without a terminal, it prints a line for each
    tenth of the cases; of many cases, also after ten, twenty, forty and so on.
    """

    def __init__(self, console: Console, drawing: HeatmapDrawing, pace: Pace) -> None:
        self._console, self._drawing, self._pace = console, drawing, pace
        self._ended, self._cases, self._printed = EndedCases(), 0, 0
        self._live = Live(self, console=console, refresh_per_second=4, transient=True)

    def begin(self, exploration: Exploration, cases: int) -> None:
        """Start to show, before the first case."""
        self._ended.begin(exploration, cases)
        self._cases, self._printed = cases, 0
        if self._console.is_terminal:
            self._live.start(refresh=True)

    def on_case(self, result: CaseResult) -> None:
        """Show a case that ended."""
        self._ended.on_case(result)
        further, tenth = len(self._ended) - self._printed, max(self._total, self._printed) // 10
        if not self._console.is_terminal and further >= max(1, min(tenth, max(FIRST_CASES, self._printed))):
            self._printed = len(self._ended)
            self._console.print(self._counts(self._ended.exploration), soft_wrap=True)

    def stop(self) -> None:
        """Remove it from the terminal."""
        self._live.stop()

    def __rich__(self) -> Group:
        so_far = self._ended.exploration
        lines = list(self._drawing.heatmap(heatmap_of(so_far)))
        has_room = len(lines) + LINES_BESIDE <= self._console.height
        ended = len(so_far.results)
        bar = ProgressBar(total=max(1, self._total, ended), completed=ended, width=BAR_COLUMNS)
        below = Table.grid(padding=(0, 1))
        left_s = self._pace.remaining_s
        live = f", {pluralize(len(so_far.findings), 'finding')}"  # it differs every time: only a terminal shows it
        live += f", about {describe_time(left_s)} left" if left_s > 0 else ""
        below.add_row(bar, self._counts(so_far, live))
        return Group(*(lines if has_room else ()), Text(), below)

    @property
    def _total(self) -> int:
        """The number of cases. It grows while single faults run and pairs become known."""
        return self._pace.cases or self._cases

    def _counts(self, so_far: Exploration, live: str = "") -> Text:
        ended, counts = len(so_far.results), verdict_counts(so_far)
        about = "about " if self._pace.has_guesses else ""
        expected = f"{ended:,} of {about}" if ended < self._total else ""
        cases = f"{expected}{pluralize(max(self._total, ended), 'case')}{live}"
        return Text(f"{cases}{counts and f': {counts}'}", style="dim")


def _totals_style(exploration: Exploration) -> str:
    return "bold red" if exploration.findings else "bold yellow" if exploration.left else "green"


DRAWN_COLUMNS = 80
MAX_CASE_CHARS = 200
MAX_COMMAND_CHARS = 2000
MAX_EVIDENCE_LINES = 20
MAX_EVIDENCE_COLUMNS = 240
MAX_FINDINGS = 20
MAX_OTHER_RESULTS = 3
MAX_UNDECLARED = 3
MAX_CHANGES = 20
_OTHER_RESULTS = ("different outcome", "different result", "not detectable")


class ExplorationConsoleReporter:
    """Prints to a console. On a terminal, the heatmap fills while cases run; elsewhere, progress goes to stderr.

    Text of runs cannot control the terminal or the log of a GitHub workflow.
    """

    def __init__(self, options: ReportOptions, console: Console | None = None, pace: Pace | None = None) -> None:
        self._options, self._console = options, console or stdout_console()
        self._is_ascii = not self._console.encoding.startswith("utf")
        self._bar = "  | " if self._is_ascii else "  │ "
        width = self._console.width if self._console.is_terminal else DRAWN_COLUMNS
        self._drawing = HeatmapDrawing(width, self._is_ascii)
        shown_on = self._console if self._console.is_terminal else stderr_console()
        self._live = LiveHeatmap(shown_on, self._drawing, pace or Pace())

    def begin(self, exploration: Exploration, cases: int) -> None:
        self._live.begin(exploration, cases)

    def on_case(self, result: CaseResult) -> None:
        self._live.on_case(result)

    def finish(self, exploration: Exploration, *, is_complete: bool = True) -> None:
        self._live.stop()
        report_input = self._options.report_input(exploration, is_complete=is_complete)
        for line in self._drawing.heatmap(heatmap_of(exploration)):
            self._print(line)
        self._print()
        self._print(self._drawing.legend(exploration.results))
        self._print()
        if not is_complete:
            self._print(("ended early: this report is partial", "bold red"))
        self._print((exploration_totals(exploration), _totals_style(exploration)))
        for note in exploration_notes(exploration):
            self._print((one_line(note, MAX_COMMAND_CHARS), "yellow" if exploration.left else "dim"))
        self._print_findings(report_input)
        self._print_other_results(exploration)
        self._print_coverage(exploration)
        self._print_measures(exploration)
        if report_input.comparison is not None:
            self._print_comparison(report_input.comparison)

    def _print_findings(self, report_input: ReportInput) -> None:
        findings = group_findings(report_input.exploration)
        for finding in findings[:MAX_FINDINGS]:
            self._print()
            self._print_finding(finding, report_input)
        if len(findings) > MAX_FINDINGS:
            self._print()
            self._print((f"… {pluralize(len(findings) - MAX_FINDINGS, 'more finding')}", "red"))
        if undeclared := undeclared_errors(report_input.exploration):
            names = one_line(",".join(undeclared[:MAX_UNDECLARED]), MAX_CASE_CHARS)
            self._print()
            self._print(f"if the agent is meant to give up with such an error, declare it: -o declared={names}")

    def _print_finding(self, finding: FindingGroup, report_input: ReportInput) -> None:
        first = one_line(str(finding.first), MAX_CASE_CHARS)
        count = len(finding.results)
        cases = first if count == 1 else f"{pluralize(count, 'case')}, the first: {first}"
        headline = one_line(finding.headline, MAX_EVIDENCE_COLUMNS)
        self._print(
            self._drawing.symbol(finding.assessment.label), (f" {finding.assessment.title}: ", "bold"), headline
        )
        self._print((self._bar, "red"), cases)
        text = "\n".join(finding.evidence)
        for line in cut_lines(text, lines=MAX_EVIDENCE_LINES, columns=MAX_EVIDENCE_COLUMNS):
            self._print((self._bar, "red"), line)
        self._print((self._bar, "red"), one_line(report_input.reproduce(finding.first), MAX_COMMAND_CHARS))

    def _print_other_results(self, exploration: Exploration) -> None:
        """Print result differences that are not findings, each once with its first case; also of the only case."""
        first: dict[str, CaseResult] = {}
        is_only = len(exploration.results) == 1 and not exploration.findings
        for each in (result for result in exploration.results if is_only or result.verdict in _OTHER_RESULTS):
            first.setdefault("\n".join(each.evidence), each)
        for evidence, each in list(first.items())[:MAX_OTHER_RESULTS]:
            self._print()
            self._print(
                self._drawing.symbol(each.label),
                (f" {each.title}: ", "bold"),
                one_line(str(each.case), MAX_CASE_CHARS),
            )
            for line in cut_lines(evidence, lines=MAX_EVIDENCE_LINES, columns=MAX_EVIDENCE_COLUMNS):
                self._print((self._bar, "dim"), line)
        if len(first) > MAX_OTHER_RESULTS:
            self._print()
            self._print((f"… {pluralize(len(first) - MAX_OTHER_RESULTS, 'more different result')}", "dim"))

    def _print_coverage(self, exploration: Exploration) -> None:
        coverage = coverage_of(exploration)
        gaps = {"met no fault": coverage.missed, "never seen to run": coverage.never_ran}
        if any(gaps.values()):
            self._print()
        for name, missing in gaps.items():
            if missing:
                self._print((f"{name}: {one_line(', '.join(missing), MAX_CASE_CHARS)}", "dim"))

    def _print_measures(self, exploration: Exploration) -> None:
        lines = list(exploration_measures(exploration))
        if lines:
            self._print()
        for line in lines:
            self._print((one_line(line, MAX_EVIDENCE_COLUMNS), "dim"))

    def _print_comparison(self, comparison: ExplorationComparison) -> None:
        self._print()
        self._print((comparison_totals(comparison), "bold red" if comparison.worse else "green"))
        ordered = sorted(comparison.changes, key=lambda change: not change.is_worse)
        for change in ordered[:MAX_CHANGES]:
            case = one_line(change.case, MAX_CASE_CHARS)
            self._print((f"  {describe_change(change)}  ", "red" if change.is_worse else "dim"), case)
        if len(ordered) > MAX_CHANGES:
            self._print(f"  … {pluralize(len(ordered) - MAX_CHANGES, 'more change')}")

    def _print(self, *parts: str | Text | tuple[str, str]) -> None:
        line = Text.assemble(*parts)
        if self._is_ascii:
            line.plain = encodable(line.plain, self._console.encoding)
        self._console.print(line, soft_wrap=True)
