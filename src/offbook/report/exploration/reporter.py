"""The reporter protocol of explorations, reporters by name, several as one, reports written to a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from msgspec.structs import replace
from rich.console import Console

from offbook.errors import InputError
from offbook.explore.run import Run
from offbook.explore.runner import CaseResult, Exploration
from offbook.report.exploration.console import ExplorationConsoleReporter
from offbook.report.exploration.github import ExplorationGithubReporter
from offbook.report.exploration.json_report import exploration_json
from offbook.report.exploration.junit import exploration_junit
from offbook.report.exploration.page import exploration_page
from offbook.report.exploration.report_input import ReportInput, ReportOptions, Reproduce
from offbook.report.report_file import write_whole
from offbook.text import suggestion


class ExplorationReporter(Protocol):
    """Hears how an exploration goes: that it begins, of each case as it is judged, and of the whole.

    `begin` and `told` fit `on_begin` and `on_case` of an Explorer. A reporter that writes a file raises InputError
    where it cannot.
    """

    def begin(self, exploration: Exploration, cases: int) -> None:
        """The clean run has been made, and so many cases follow; pairs of faults come on top."""
        ...

    def told(self, explored: CaseResult) -> None:
        """A case was run and judged."""
        ...

    def finish(self, exploration: Exploration, *, is_complete: bool = True) -> None:
        """The exploration has ended, or was cut off and is not complete."""
        ...


class ExplorationReporters:
    """Several reporters as one, each told in the order given."""

    def __init__(self, *reporters: ExplorationReporter) -> None:
        self._reporters = reporters

    def begin(self, exploration: Exploration, cases: int) -> None:
        for reporter in self._reporters:
            reporter.begin(exploration, cases)

    def told(self, explored: CaseResult) -> None:
        for reporter in self._reporters:
            reporter.told(explored)

    def finish(self, exploration: Exploration, *, is_complete: bool = True) -> None:
        for reporter in self._reporters:
            reporter.finish(exploration, is_complete=is_complete)


def report_exploration(exploration: Exploration, reporter: ExplorationReporter) -> None:
    """Report an exploration that is over."""
    reporter.begin(Exploration(exploration.subject, exploration.clean), len(exploration.results))
    for explored in exploration.results:
        reporter.told(explored)
    reporter.finish(exploration)


class ExplorationFileReporter:
    """Keeps a file that tells of the cases so far, and at the end of the whole exploration.

    It is written when the exploration begins, so that a path that cannot be written is found before any case runs,
    and then each time that the cases have become twice as many: what is killed leaves at least half of them, and the
    writing costs no more than twice that of the end.
    """

    def __init__(self, path: Path, render: Callable[[ReportInput], bytes], manner: ReportOptions) -> None:
        self._path, self._render, self._report_options = path, render, manner
        self._begun = Exploration("", Run())
        self._told: list[CaseResult] = []
        self._written = 0

    def begin(self, exploration: Exploration, cases: int) -> None:
        self._begun, self._told, self._written = exploration, [], 0
        self.finish(exploration, is_complete=False)

    def told(self, explored: CaseResult) -> None:
        self._told.append(explored)
        if len(self._told) >= 2 * self._written:
            self._written = len(self._told)
            self.finish(replace(self._begun, results=tuple(self._told)), is_complete=False)

    def finish(self, exploration: Exploration, *, is_complete: bool = True) -> None:
        write_whole(self._path, self._render(self._report_options.report_input(exploration, is_complete=is_complete)))


FILES: dict[str, tuple[Callable[[ReportInput], bytes], str]] = {
    "html": (exploration_page, "report.html"),
    "json": (exploration_json, "exploration.json"),
    "junit": (exploration_junit, "junit.xml"),
}
NAMES = ("console", "github", *FILES)


def exploration_reporter_of(
    declared: str, *, reproduce: Reproduce, before: Exploration | None = None, console: Console | None = None
) -> ExplorationReporter:
    """The reporter that is declared as `name` or `name=path`.

    `console` takes no path, `github` may have one: the file that its step summary is added to. The others need one.

    Args:
        reproduce: gives the command that runs a case again.
        before: an earlier exploration to compare with.
        console: where the reporter of that name prints; by default standard output.

    Raises:
        InputError: there is no such reporter, or its path is missing or not wanted.
    """
    name, _, path = declared.partition("=")
    manner = ReportOptions(reproduce, before)
    if name not in NAMES:
        hint = suggestion(name, NAMES, kind="reporters")
        raise InputError(f"no reporter is called {name!r}", source=declared, hint=hint)
    if name == "console":
        if path:
            raise InputError("the console takes no path", source=declared, hint="console")
        return ExplorationConsoleReporter(manner, console)
    if name == "github":
        return ExplorationGithubReporter(manner, Path(path) if path else None)
    render, example = FILES[name]
    if not path:
        raise InputError("a path is missing", source=declared, hint=f"{name}={example}")
    return ExplorationFileReporter(Path(path), render, manner)
