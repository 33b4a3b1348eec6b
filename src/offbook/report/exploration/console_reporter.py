"""An exploration on the console: its heatmap, the findings by cause, what was covered, what differs from before."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from offbook.explore.comparison import Comparison
from offbook.explore.coverage import coverage_of
from offbook.explore.exploration import Exploration, Explored
from offbook.report.console_report import standard_output
from offbook.report.exploration.account import Account, Manner
from offbook.report.exploration.drawing import Drawing
from offbook.report.exploration.findings import Finding, findings_of
from offbook.report.exploration.heatmap import heatmap_of
from offbook.report.exploration.live_heatmap import LiveHeatmap
from offbook.report.exploration.totals import change_told, comparison_totals, totals
from offbook.report.wording import cut_lines, on_one_line
from offbook.wording import counted

DRAWN_COLUMNS = 80
MAX_CASE_CHARS = 200
MAX_COMMAND_CHARS = 2000
MAX_EVIDENCE_LINES = 20
MAX_EVIDENCE_COLUMNS = 240
MAX_FINDINGS = 20
MAX_CHANGES = 20


class ExplorationConsoleReporter:
    """Prints to a console. On a terminal, the heatmap is there from the beginning and fills.

    Nothing that a run has said can command a terminal, nor the log of a GitHub workflow.
    """

    def __init__(self, manner: Manner, console: Console | None = None) -> None:
        self._manner, self._console = manner, console or standard_output()
        self._is_ascii = not self._console.encoding.startswith("utf")
        self._bar = "  | " if self._is_ascii else "  │ "
        width = self._console.width if self._console.is_terminal else DRAWN_COLUMNS
        self._drawing = Drawing(width, self._is_ascii)
        self._live = LiveHeatmap(self._console, self._drawing)

    def begin(self, exploration: Exploration, cases: int) -> None:
        self._live.begin(exploration, cases)

    def told(self, explored: Explored) -> None:
        self._live.told(explored)

    def finish(self, exploration: Exploration, *, is_complete: bool = True) -> None:
        self._live.stop()
        account = self._manner.account(exploration, is_complete=is_complete)
        for line in self._drawing.heatmap(heatmap_of(exploration)):
            self._print(line)
        self._print()
        self._print(self._drawing.signs(exploration.explored))
        self._print()
        if not is_complete:
            self._print(("cut off: this is what had ended by then", "bold red"))
        self._print((totals(exploration), "bold red" if exploration.findings else "green"))
        self._print_findings(account)
        self._print_coverage(exploration)
        if account.comparison is not None:
            self._print_comparison(account.comparison)

    def _print_findings(self, account: Account) -> None:
        findings = findings_of(account.exploration)
        for finding in findings[:MAX_FINDINGS]:
            self._print()
            self._print_finding(finding, account)
        if len(findings) > MAX_FINDINGS:
            self._print()
            self._print((f"… {counted(len(findings) - MAX_FINDINGS, 'more finding')}", "red"))

    def _print_finding(self, finding: Finding, account: Account) -> None:
        first = on_one_line(str(finding.first), MAX_CASE_CHARS)
        count = len(finding.explored)
        told = first if count == 1 else f"{counted(count, 'case')}, the first: {first}"
        self._print(self._drawing.sign(finding.verdict), (f" {finding.verdict}  ", "bold"), told)
        text = "\n".join(finding.evidence)
        for line in cut_lines(text, lines=MAX_EVIDENCE_LINES, columns=MAX_EVIDENCE_COLUMNS):
            self._print((self._bar, "red"), line)
        self._print((self._bar, "red"), on_one_line(account.reproduce(finding.first), MAX_COMMAND_CHARS))

    def _print_coverage(self, exploration: Exploration) -> None:
        coverage = coverage_of(exploration)
        told = {"met no fault": coverage.missed, "never seen to run": coverage.never_ran}
        if any(told.values()):
            self._print()
        for name, what in told.items():
            if what:
                self._print((f"{name}: {on_one_line(', '.join(what), MAX_CASE_CHARS)}", "dim"))

    def _print_comparison(self, comparison: Comparison) -> None:
        self._print()
        self._print((comparison_totals(comparison), "bold red" if comparison.worse else "green"))
        ordered = sorted(comparison.changes, key=lambda change: not change.is_worse)
        for change in ordered[:MAX_CHANGES]:
            case = on_one_line(change.case, MAX_CASE_CHARS)
            self._print((f"  {change_told(change)}  ", "red" if change.is_worse else "dim"), case)
        if len(ordered) > MAX_CHANGES:
            self._print(f"  … {counted(len(ordered) - MAX_CHANGES, 'more change')}")

    def _print(self, *parts: str | Text | tuple[str, str]) -> None:
        line = Text.assemble(*parts)
        if self._is_ascii:
            encoding = self._console.encoding
            line.plain = line.plain.encode(encoding, "replace").decode(encoding)
        self._console.print(line, soft_wrap=True)
