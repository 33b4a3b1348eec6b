"""The reporter protocol of explorations, reporters by name, several as one, and reports written to a file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from rich.console import Console

from offbook.explore.explorer import CaseResult, Exploration
from offbook.explore.schedule import Pace
from offbook.report.exploration.console import ExplorationConsoleReporter
from offbook.report.exploration.json_report import exploration_json
from offbook.report.exploration.page import exploration_page
from offbook.report.exploration.report_input import (
    NO_ORIGIN,
    EndedCases,
    ExploredShard,
    ReportInput,
    ReportOptions,
    ReportOrigin,
    Reproduce,
)
from offbook.report.github import ExplorationGithubReporter
from offbook.report.junit import exploration_junit
from offbook.report.reporter import parse_reporter, write_report


class ExplorationReporter(Protocol):
    """Is called when an exploration begins, after each case, and at the end.

    `begin` and `on_case` fit `on_begin` and `on_case` of an Explorer. A reporter that cannot write its file raises
    InputError.
    """

    def begin(self, exploration: Exploration, cases: int) -> None:
        """Begin after the clean run with the number of cases, approximate for pairs."""
        ...

    def on_case(self, result: CaseResult) -> None:
        """Report a case that ended."""
        ...

    def finish(self, exploration: Exploration, *, is_complete: bool = True) -> None:
        """Report the exploration. It ended early if it is not complete."""
        ...


class FinalReporter(ABC):
    """A reporter that waits for the end."""

    def begin(self, exploration: Exploration, cases: int) -> None: ...

    def on_case(self, result: CaseResult) -> None: ...

    @abstractmethod
    def finish(self, exploration: Exploration, *, is_complete: bool = True) -> None: ...


class ExplorationReporters:
    """Several reporters as one, called in the order given."""

    def __init__(self, *reporters: ExplorationReporter) -> None:
        self._reporters = reporters

    def begin(self, exploration: Exploration, cases: int) -> None:
        for reporter in self._reporters:
            reporter.begin(exploration, cases)

    def on_case(self, result: CaseResult) -> None:
        for reporter in self._reporters:
            reporter.on_case(result)

    def finish(self, exploration: Exploration, *, is_complete: bool = True) -> None:
        for reporter in self._reporters:
            reporter.finish(exploration, is_complete=is_complete)


def report_exploration(exploration: Exploration, reporter: ExplorationReporter) -> None:
    """Report an exploration that has ended."""
    reporter.begin(Exploration(exploration.subject, exploration.clean), len(exploration.results))
    for result in exploration.results:
        reporter.on_case(result)
    reporter.finish(exploration)


class ExplorationFileReporter:
    """Writes a report of the cases so far to a file, and of the whole exploration at the end.

    The first write happens before any case runs, to find an unwritable path. Further writes follow each doubling of the
    number of cases: a killed exploration keeps at least half of its cases, and all writes together cost at most twice
    the last one.
    """

    def __init__(self, path: Path, render: Callable[[ReportInput], bytes], options: ReportOptions) -> None:
        self._path, self._render, self._options = path, render, options
        self._ended, self._written = EndedCases(), 0

    def begin(self, exploration: Exploration, cases: int) -> None:
        self._ended.begin(exploration, cases)
        self._written = 0
        self.finish(exploration, is_complete=False)

    def on_case(self, result: CaseResult) -> None:
        self._ended.on_case(result)
        if len(self._ended) >= 2 * self._written:
            self._written = len(self._ended)
            self.finish(self._ended.exploration, is_complete=False)

    def finish(self, exploration: Exploration, *, is_complete: bool = True) -> None:
        write_report(self._path, self._render(self._options.report_input(exploration, is_complete=is_complete)))


FILES = {"html": "report.html", "json": "exploration.json", "junit": "junit.xml"}
RENDERERS: dict[str, Callable[[ReportInput], bytes]] = {
    "html": exploration_page,
    "json": exploration_json,
    "junit": exploration_junit,
}


def exploration_reporter_of(
    declared: str,
    *,
    reproduce: Reproduce,
    before: Exploration | None = None,
    shard: ExploredShard | None = None,
    origin: ReportOrigin = NO_ORIGIN,
    console: Console | None = None,
    pace: Pace | None = None,
) -> ExplorationReporter:
    """Return the reporter declared as `name` or `name=path`.

    `console` takes no path. `github` accepts one for its step summary. The others need one.

    Args:
        reproduce: returns the command that runs a case again.
        before: an earlier exploration to compare with.
        shard: the shard and its run, if the exploration is one.
        origin: the origin of the exploration.
        console: the output of the reporter `console`; stdout by default.
        pace: the speed of the exploration, for the reporter `console` on a terminal.

    Raises:
        InputError: the reporter does not exist, or its path is missing or not allowed.
    """
    return reporter_with(ReportOptions(reproduce, before, shard, origin), declared, console=console, pace=pace)


def reporter_with(
    options: ReportOptions, declared: str, *, console: Console | None = None, pace: Pace | None = None
) -> ExplorationReporter:
    """Return the reporter declared as `name` or `name=path`, like `exploration_reporter_of`."""
    name, path = parse_reporter(declared, FILES)
    if name == "github":
        return ExplorationGithubReporter(options, path)
    if path is None:
        return ExplorationConsoleReporter(options, console, pace)
    return ExplorationFileReporter(path, RENDERERS[name], options)
