"""Explores for a command: reports as cases end, regression files for findings, and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from functools import partial

import msgspec
import typer
from msgspec.structs import replace
from rich.console import Console

from offbook.cli.exit_codes import FAILED, FINE, INTERRUPTED
from offbook.cli.output.console import ending_document, print_message
from offbook.cli.process import Interruption, Termination
from offbook.cli.runners.explore_arguments import ExploreArguments
from offbook.errors import InputError
from offbook.explore.cases import FaultCase
from offbook.explore.compare import compare_explorations
from offbook.explore.runner import CaseResult, Exploration, ExploreOptions, Explorer, Subject
from offbook.explore.variants import VARIANTS, select_variants
from offbook.faults import parse_fault
from offbook.report.exploration import (
    ExplorationReporter,
    ExplorationReporters,
    exploration_reporter_of,
    load_exploration,
)
from offbook.report.exploration.json_report import exploration_json
from offbook.report.exploration.report_input import ReportOptions, group_findings
from offbook.report.scenarios.console import PLAIN_COLUMNS
from offbook.subjects.executors import AutoExecutor, SilentSubject
from offbook.subjects.open import load_invariants, open_subject
from offbook.subjects.regression import Regression, RegressionFolder
from offbook.subjects.specs import AnySubjectSpec, ExploreSettings, WorkerSpec, explore_command
from offbook.text import did_you_mean, pluralize


class PartialExploration:
    """Keeps what has ended, of an exploration that may be cut off."""

    def __init__(self) -> None:
        self._begun: Exploration | None = None
        self._told: list[CaseResult] = []

    def begin(self, exploration: Exploration, cases: int) -> None:
        self._begun, self._told = exploration, []

    def told(self, explored: CaseResult) -> None:
        self._told.append(explored)

    def finish(self, exploration: Exploration, *, is_complete: bool = True) -> None:
        """There is no more to keep."""

    def report(self, reporter: ExplorationReporter) -> bool:
        """Tell a reporter what has ended, if the exploration had begun; gives back whether it had."""
        if self._begun is None:
            return False
        reporter.finish(replace(self._begun, results=tuple(self._told)), is_complete=False)
        return True


class JsonExplorationOutput:
    """Prints an exploration as JSON, when it has ended."""

    def __init__(self, manner: ReportOptions) -> None:
        self._report_options = manner

    def begin(self, exploration: Exploration, cases: int) -> None:
        """Wait for the end."""

    def told(self, explored: CaseResult) -> None:
        """Wait for the end."""

    def finish(self, exploration: Exploration, *, is_complete: bool = True) -> None:
        typer.echo(exploration_json(self._report_options.report_input(exploration, is_complete=is_complete)), nl=False)


class QuietExplorationOutput:
    """Prints the findings, a line each, and nothing else."""

    def begin(self, exploration: Exploration, cases: int) -> None:
        """Wait for the end."""

    def told(self, explored: CaseResult) -> None:
        """Wait for the end."""

    def finish(self, exploration: Exploration, *, is_complete: bool = True) -> None:
        for finding in group_findings(exploration):
            evidence = next(iter(finding.evidence), "").partition("\n")[0]
            more = len(finding.results) - 1
            also = f" (and {pluralize(more, 'further case')})" if more else ""
            print_message(f"{finding.verdict}: ", f"{finding.first}: {evidence}{also}")


def run_exploration(spec: AnySubjectSpec, settings: ExploreSettings, options: ExploreArguments) -> int:
    """Explore it, report it, and give the exit code.

    Raises:
        InputError: something that it needs is missing or wrong, or it fails without any fault.
    """
    before = None if options.compare is None else load_exploration(options.compare)
    work = _Exploration(spec, settings, options, before)
    try:
        with Termination(), Interruption():
            return work.listed() if options.is_list else work.explored()
    except KeyboardInterrupt:
        if not work.so_far.report(work.reporter) and options.is_json:
            typer.echo(ending_document("SIGINT", "interrupted", exit_code=INTERRUPTED))
        return INTERRUPTED


class _Exploration:
    """An exploration under way, of which what has ended can be told if it is cut off."""

    def __init__(
        self, spec: AnySubjectSpec, settings: ExploreSettings, options: ExploreArguments, before: Exploration | None
    ) -> None:
        self._spec, self._settings, self._options, self._before = spec, settings, options, before
        self.so_far = PartialExploration()
        self.reporter = ExplorationReporters(*self._reporters())

    def explored(self) -> int:
        """Run the cases and report them."""
        with open_subject(self._spec, self._settings) as subject, self._executor(subject) as executor:
            explorer = self._explorer(subject, executor)
            exploration = explorer.explore(self._only(explorer))
            self.reporter.finish(exploration)
            self._keep(subject, exploration)
        return self._exit_code(exploration)

    def listed(self) -> int:
        """Print the cases that there are."""
        with open_subject(self._spec, self._settings) as subject, self._executor(subject) as executor:
            explorer = self._explorer(subject, executor)
            cases = self._only(explorer) or explorer.cases[: self._options.budget]
        if self._options.is_json:
            typer.echo(msgspec.json.encode([{"id": case.id, "case": str(case)} for case in cases]))
            return FINE
        for case in cases:
            print_message(f"{case.id}  ", str(case))
        return FINE

    def _executor(self, subject: Subject) -> AutoExecutor:
        return AutoExecutor(subject, WorkerSpec(self._spec, self._settings), self._options.workers)

    def _explorer(self, subject: Subject, executor: AutoExecutor) -> Explorer:
        options = self._options
        wish = ExploreOptions(
            variants=select_variants(options.faults, getattr(subject, "variants", VARIANTS)),
            pairs=options.has_pairs,
            budget=options.budget,
            invariants=[] if options.invariants is None else load_invariants(options.invariants),
        )
        told = ExplorationReporters(self.so_far, self.reporter)
        return Explorer(executor.subject, wish, executor=executor, on_begin=told.begin, on_case=told.told)

    def _only(self, explorer: Explorer) -> Sequence[FaultCase] | None:
        """The cases that are asked for by their ids or by their faults; None if all are."""
        if self._options.lines:
            lines = tuple(parse_fault(line) for line in self._options.lines)
            return [next((case for case in explorer.cases if case.lines == lines), FaultCase("0000", lines, ()))]
        if not self._options.only:
            return None
        known = {case.id: case for case in explorer.cases}
        return [_case(known, wanted) for wanted in self._options.only]

    def _reporters(self) -> Iterator[ExplorationReporter]:
        """The reports, files first: one that cannot be written is found before a terminal shows anything."""
        manner = ReportOptions(self._reproduce, self._before)
        make = partial(exploration_reporter_of, reproduce=self._reproduce, before=self._before)
        summary = os.environ.get("GITHUB_STEP_SUMMARY", "")
        for declared in self._options.reporters:
            yield make(f"github={summary}" if declared == "github" and summary else declared)
        if self._options.is_json:
            yield JsonExplorationOutput(manner)
        elif self._options.is_quiet:
            yield QuietExplorationOutput()
        else:
            yield make("console", console=_console())

    def _reproduce(self, case: FaultCase) -> str:
        """The command that runs a case again, whatever its number."""
        invariants = self._options.invariants
        options = [*self._settings.arguments, *([] if invariants is None else ["--invariants", invariants])]
        return explore_command(
            self._spec, [*options, *(word for line in case.lines for word in ("--fault", str(line)))]
        )

    def _keep(self, subject: Subject, exploration: Exploration) -> None:
        """Write the findings down, one for each cause."""
        if self._options.regress is None:
            return
        kind = Regression(
            offbook="regression",
            verdict="wrong",
            faults=(),
            subject=self._spec,
            settings=self._settings,
            invariants=self._options.invariants,
        )
        first = [finding.results[0] for finding in group_findings(exploration)]
        files = RegressionFolder(self._options.regress, kind).keep(SilentSubject(subject), exploration.clean, first)
        for file in files if not self._options.is_quiet else ():
            typer.echo(f"kept: offbook replay --plan {file}", err=self._options.is_json)

    def _exit_code(self, exploration: Exploration) -> int:
        is_worse = self._before is not None and bool(compare_explorations(self._before, exploration).worse)
        has_failed = any(each.verdict in self._options.fail_on for each in exploration.results)
        return FAILED if has_failed or is_worse else FINE


def _case(known: dict[str, FaultCase], id: str) -> FaultCase:
    if id not in known:
        hint = did_you_mean(id, known) or f"there are {pluralize(len(known), 'case')}; --list shows them"
        raise InputError(f"there is no case {id!r}", source="--only", hint=hint)
    return known[id]


def _console() -> Console:
    """A console on standard output, whatever is put in its place while a case runs."""
    width = None if sys.stdout.isatty() else PLAIN_COLUMNS
    return Console(file=sys.stdout, highlight=False, markup=False, emoji=False, width=width)
