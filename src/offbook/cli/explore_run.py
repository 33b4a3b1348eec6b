"""Exploring something for a command: with reports as cases end, and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from functools import partial

import msgspec
import typer
from rich.console import Console

from offbook.cli.console import say
from offbook.cli.error_document import told_ending
from offbook.cli.exit_codes import FAILED, FINE, INTERRUPTED
from offbook.cli.exploration_output import JsonExplorationOutput, QuietFindings, SoFar
from offbook.cli.explore_options import ExploreOptions
from offbook.cli.interruption import Interruption
from offbook.cli.termination import Termination
from offbook.errors import InputError
from offbook.explore.case import Case
from offbook.explore.comparison import compared
from offbook.explore.exploration import Exploration, Explorer, Wish
from offbook.explore.menu import MENU, chosen
from offbook.explore.subject import Subject
from offbook.faults import parse_fault
from offbook.report.console_report import PLAIN_COLUMNS
from offbook.report.exploration import (
    ExplorationReporter,
    ExplorationReporters,
    exploration_reporter_of,
    load_exploration,
)
from offbook.report.exploration.account import Manner
from offbook.report.exploration.findings import findings_of
from offbook.subjects.crew import ChosenCrew
from offbook.subjects.described import AnyDescribed, explore_command
from offbook.subjects.invariants import load_invariants
from offbook.subjects.opening import open_subject
from offbook.subjects.regression import Regression, RegressionFolder
from offbook.subjects.silent import SilentSubject
from offbook.subjects.terms import Terms
from offbook.subjects.worker_lines import Part
from offbook.wording import counted, did_you_mean


def run_exploration(described: AnyDescribed, terms: Terms, options: ExploreOptions) -> int:
    """Explore it, report it, and give the exit code.

    Raises:
        InputError: something that it needs is missing or wrong, or it fails without any fault.
    """
    before = None if options.compare is None else load_exploration(options.compare)
    work = _Exploration(described, terms, options, before)
    try:
        with Termination(), Interruption():
            return work.listed() if options.is_list else work.explored()
    except KeyboardInterrupt:
        if not work.so_far.report(work.reporter) and options.is_json:
            typer.echo(told_ending("SIGINT", "interrupted", exit_code=INTERRUPTED))
        return INTERRUPTED


class _Exploration:
    """An exploration under way, of which what has ended can be told if it is cut off."""

    def __init__(
        self, described: AnyDescribed, terms: Terms, options: ExploreOptions, before: Exploration | None
    ) -> None:
        self._described, self._terms, self._options, self._before = described, terms, options, before
        self.so_far = SoFar()
        self.reporter = ExplorationReporters(*self._reporters())

    def explored(self) -> int:
        """Run the cases and report them."""
        with open_subject(self._described, self._terms) as subject, self._crew(subject) as crew:
            explorer = self._explorer(subject, crew)
            exploration = explorer.explore(self._only(explorer))
            self.reporter.finish(exploration)
            self._keep(subject, exploration)
        return self._exit_code(exploration)

    def listed(self) -> int:
        """Print the cases that there are."""
        with open_subject(self._described, self._terms) as subject, self._crew(subject) as crew:
            explorer = self._explorer(subject, crew)
            cases = self._only(explorer) or explorer.cases[: self._options.budget]
        if self._options.is_json:
            typer.echo(msgspec.json.encode([{"id": case.id, "case": str(case)} for case in cases]))
            return FINE
        for case in cases:
            say(f"{case.id}  ", str(case))
        return FINE

    def _crew(self, subject: Subject) -> ChosenCrew:
        return ChosenCrew(subject, Part(self._described, self._terms), self._options.workers)

    def _explorer(self, subject: Subject, crew: ChosenCrew) -> Explorer:
        options = self._options
        wish = Wish(
            dishes=chosen(options.faults, getattr(subject, "menu", MENU)),
            pairs=options.has_pairs,
            budget=options.budget,
            invariants=[] if options.invariants is None else load_invariants(options.invariants),
        )
        told = ExplorationReporters(self.so_far, self.reporter)
        return Explorer(crew.subject, wish, crew=crew, on_begin=told.begin, on_case=told.told)

    def _only(self, explorer: Explorer) -> Sequence[Case] | None:
        """The cases that are asked for by their ids or by their faults; None if all are."""
        if self._options.lines:
            lines = tuple(parse_fault(line) for line in self._options.lines)
            return [next((case for case in explorer.cases if case.lines == lines), Case("0000", lines, ()))]
        if not self._options.only:
            return None
        known = {case.id: case for case in explorer.cases}
        return [_case(known, wanted) for wanted in self._options.only]

    def _reporters(self) -> Iterator[ExplorationReporter]:
        """The reports, files first: one that cannot be written is found before a terminal shows anything."""
        manner = Manner(self._reproduce, self._before)
        make = partial(exploration_reporter_of, reproduce=self._reproduce, before=self._before)
        summary = os.environ.get("GITHUB_STEP_SUMMARY", "")
        for declared in self._options.reporters:
            yield make(f"github={summary}" if declared == "github" and summary else declared)
        if self._options.is_json:
            yield JsonExplorationOutput(manner)
        elif self._options.is_quiet:
            yield QuietFindings()
        else:
            yield make("console", console=_console())

    def _reproduce(self, case: Case) -> str:
        """The command that runs a case again, whatever its number."""
        invariants = self._options.invariants
        options = [*self._terms.arguments, *([] if invariants is None else ["--invariants", invariants])]
        return explore_command(
            self._described, [*options, *(word for line in case.lines for word in ("--fault", str(line)))]
        )

    def _keep(self, subject: Subject, exploration: Exploration) -> None:
        """Write the findings down, one for each cause."""
        if self._options.regress is None:
            return
        kind = Regression(
            offbook="regression",
            verdict="wrong",
            faults=(),
            subject=self._described,
            terms=self._terms,
            invariants=self._options.invariants,
        )
        first = [finding.explored[0] for finding in findings_of(exploration)]
        files = RegressionFolder(self._options.regress, kind).keep(SilentSubject(subject), exploration.clean, first)
        for file in files if not self._options.is_quiet else ():
            typer.echo(f"kept: offbook replay --plan {file}", err=self._options.is_json)

    def _exit_code(self, exploration: Exploration) -> int:
        is_worse = self._before is not None and bool(compared(self._before, exploration).worse)
        has_failed = any(each.verdict in self._options.fail_on for each in exploration.explored)
        return FAILED if has_failed or is_worse else FINE


def _case(known: dict[str, Case], id: str) -> Case:
    if id not in known:
        hint = did_you_mean(id, known) or f"there are {counted(len(known), 'case')}; --list shows them"
        raise InputError(f"there is no case {id!r}", source="--only", hint=hint)
    return known[id]


def _console() -> Console:
    """A console on standard output, whatever is put in its place while a case runs."""
    width = None if sys.stdout.isatty() else PLAIN_COLUMNS
    return Console(file=sys.stdout, highlight=False, markup=False, emoji=False, width=width)
