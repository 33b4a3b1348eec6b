"""The reports of an exploration that a command writes and prints, its exit code, and the verdict on a regression."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from offbook.cli import FAILED, FINE, PARTIAL
from offbook.cli.output.console import echo_json, print_message
from offbook.explore.compare import compare_explorations
from offbook.explore.explorer import CaseResult, Exploration
from offbook.explore.schedule import Pace
from offbook.report.exploration.console import ExplorationConsoleReporter
from offbook.report.exploration.json_report import exploration_json
from offbook.report.exploration.report_input import (
    EndedCases,
    ReportOptions,
    describe_change,
    group_findings,
    undeclared_errors,
)
from offbook.report.exploration.reporter import ExplorationReporter, FinalReporter, reporter_with
from offbook.report.reporter import stdout_console
from offbook.text import did_you_mean, pluralize

if TYPE_CHECKING:
    from offbook.subjects.regression import Regression


class JsonExplorationOutput(FinalReporter):
    """Prints an exploration as JSON when it ends."""

    def __init__(self, options: ReportOptions) -> None:
        self._options = options

    def finish(self, exploration: Exploration, *, is_complete: bool = True) -> None:
        echo_json(exploration_json(self._options.report_input(exploration, is_complete=is_complete)), nl=False)


class QuietExplorationOutput(FinalReporter):
    """Prints one line for each finding, and for each case that got worse."""

    def __init__(self, options: ReportOptions) -> None:
        self._options = options

    def finish(self, exploration: Exploration, *, is_complete: bool = True) -> None:
        for finding in group_findings(exploration):
            more = len(finding.results) - 1
            also = f" (and {pluralize(more, 'further case')})" if more else ""
            print_message(f"{finding.assessment.title}: ", f"{finding.headline} at {finding.first}{also}")
        before = self._options.before
        for change in () if before is None else compare_explorations(before, exploration).worse:
            print_message("worse than before: ", f"{describe_change(change)} at {change.case}")


class WrittenReports(FinalReporter):
    """Names the written report files, after all other output."""

    def __init__(self, reporters: Sequence[str]) -> None:
        self._files = [path for _, _, path in (each.partition("=") for each in reporters) if path]

    def finish(self, exploration: Exploration, *, is_complete: bool = True) -> None:
        for file in self._files:
            print_message("report: ", file, is_err=True)


class DeclaredErrors(FinalReporter):
    """Names declared errors that ended no run, after all other output: they may be misspelt."""

    def __init__(self, declared: Sequence[str]) -> None:
        self._declared = declared

    def finish(self, exploration: Exploration, *, is_complete: bool = True) -> None:
        met = {each.run.error.declared_as for each in exploration.results if each.run.error is not None}
        others = undeclared_errors(exploration)
        for name in self._declared if is_complete else ():
            if name not in met:
                hint = did_you_mean(name, others, kind="errors that are not declared") if others else ""
                message = f"declared={name}: no run has ended with it"
                print_message("note: ", "; ".join(filter(None, [message, hint])), is_err=True)


class PartialExploration(EndedCases):
    """Collects the cases of an exploration that may be interrupted."""

    def finish(self, exploration: Exploration, *, is_complete: bool = True) -> None:
        """Do nothing: the exploration is reported as a whole."""

    def report(self, reporter: ExplorationReporter) -> bool:
        """Report the cases that ended, and return whether the exploration had begun."""
        if self.has_begun:
            reporter.finish(self.exploration, is_complete=False)
        return self.has_begun


class ExplorationOutput(Struct, frozen=True, kw_only=True):
    """The declared and printed reports of an exploration. `declared` are its declared errors, if all cases run."""

    reporters: Sequence[str] = ()
    is_json: bool = False
    is_quiet: bool = False
    declared: Sequence[str] = ()

    def reporters_of(self, options: ReportOptions, pace: Pace) -> Iterator[ExplorationReporter]:
        """Yield the reporters, files first: an unwritable one is an error before any output."""
        summary = os.environ.get("GITHUB_STEP_SUMMARY", "")
        for declared in self.reporters:
            yield reporter_with(options, f"github={summary}" if declared == "github" and summary else declared)
        if self.is_json:
            yield JsonExplorationOutput(options)
        elif self.is_quiet:
            yield QuietExplorationOutput(options)
        else:
            yield ExplorationConsoleReporter(options, stdout_console(), pace)
            yield WrittenReports(self.reporters)
        if self.declared and not self.is_quiet:
            yield DeclaredErrors(self.declared)


def exploration_exit_code(
    exploration: Exploration,
    *,
    fail_on: Collection[str],
    before: Exploration | None = None,
    allow_partial: bool = False,
    must_reach: Sequence[str] = (),
) -> int:
    """Return 1 if a verdict is among the titles of `fail_on` or, with an earlier exploration, if one got worse; also if
    no case has reached one of the places of `must_reach`.

    A budget that left cases out is no success unless allowed; one that left all of them out never is.
    """
    if exploration.left and not exploration.results and not exploration.elsewhere:
        print_message("error: ", "the budget was over before the first case", style="bold red", is_err=True)
        return FAILED
    if before is not None:
        has_failed = bool(compare_explorations(before, exploration).worse)
    else:
        has_failed = any(each.title in fail_on for each in exploration.results)
    places = set[str]().union(*(each.run.places for each in exploration.results))
    for name in (each for each in must_reach if each not in places):
        hint = did_you_mean(name, sorted(places), kind="places that were reached")
        message = "; ".join(filter(None, [f"no case has reached {name!r}", hint]))
        print_message("must_reach: ", message, style="bold red", is_err=True)
        has_failed = True
    if has_failed or not exploration.left or allow_partial or exploration.discovery.stopped_after:
        return FAILED if has_failed else FINE
    hint = "a larger --budget runs them, -o allow_partial=true makes this a success"
    print_message("partial: ", f"the budget left out {pluralize(exploration.left, 'case')}; {hint}", is_err=True)
    return PARTIAL


def print_regression(regression: Regression, explored: CaseResult) -> None:
    """Print the verdict of a repeated regression, and its former one."""
    print_message("", str(regression))
    style = "bold red" if explored.is_finding else "green"
    before = regression.assessment.title
    is_same = explored.title == before
    was = "" if is_same else f" (it was: {before})"
    label = ("still " if is_same else "now ") if explored.is_finding else "fixed: "
    print_message(f"{label}{explored.title}{was}: ", "\n".join(explored.evidence), style=style)


def regression_document(regression: Regression, explored: CaseResult) -> bytes:
    """Return both verdicts on a regression as JSON."""
    document = {
        "case": str(regression),
        "before": regression.assessment.title,
        "verdict": explored.verdict,
        "reason": explored.reason,
        "is_finding": explored.is_finding,
        "evidence": explored.evidence,
    }
    return msgspec.json.encode(document)
