"""The reporter protocol of scenario runs, reporters by name, several as one, reports written to a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from rich.console import Console

from offbook.errors import InputError
from offbook.report.report_file import write_whole
from offbook.report.scenarios.console import ConsoleReporter
from offbook.report.scenarios.github import GithubReporter
from offbook.report.scenarios.json_report import html_report, json_report
from offbook.report.scenarios.junit import junit_report
from offbook.scenarios.result import ScenarioResult, SuiteResult
from offbook.text import suggestion


class Reporter(Protocol):
    """Hears how a run of scenarios goes: that it begins, of each scenario as it ends, and of the whole.

    A reporter that writes a file raises InputError where it cannot.
    """

    def begin(self, scenarios: int) -> None:
        """A run begins, of so many scenarios; one that is run with two agents counts twice."""
        ...

    def told(self, scenario: ScenarioResult) -> None:
        """A scenario has ended."""
        ...

    def finish(self, result: SuiteResult) -> None:
        """The run has ended, or was cut off. All its scenarios have been told, in any order."""
        ...


class Reporters:
    """Several reporters as one, each told in the order given."""

    def __init__(self, *reporters: Reporter) -> None:
        self._reporters = reporters

    def begin(self, scenarios: int) -> None:
        for reporter in self._reporters:
            reporter.begin(scenarios)

    def told(self, scenario: ScenarioResult) -> None:
        for reporter in self._reporters:
            reporter.told(scenario)

    def finish(self, result: SuiteResult) -> None:
        for reporter in self._reporters:
            reporter.finish(result)


def report(result: SuiteResult, reporter: Reporter) -> None:
    """Report a run that is over."""
    reporter.begin(len(result.scenarios))
    for scenario in result.scenarios:
        reporter.told(scenario)
    reporter.finish(result)


class FileReporter:
    """Keeps a file that tells what has ended so far, and at the end the whole run.

    It is written when the run begins, so that a path that cannot be written is found before anything is paid for,
    and no report of an earlier run stays there; then as scenarios end: the first hundred one by one, and after that
    each time that they have become a twentieth more, so that the writing stays small beside a long run.
    """

    def __init__(self, path: Path, render: Callable[[SuiteResult], bytes]) -> None:
        self._path, self._render = path, render
        self._told: list[ScenarioResult] = []
        self._written = 0

    def begin(self, scenarios: int) -> None:
        self._told = []
        self._write_told()

    def told(self, scenario: ScenarioResult) -> None:
        self._told.append(scenario)
        if (len(self._told) - self._written) * 20 >= len(self._told) - 100:
            self._write_told()

    def finish(self, result: SuiteResult) -> None:
        write_whole(self._path, self._render(result))

    def _write_told(self) -> None:
        self._written = len(self._told)
        write_whole(self._path, self._render(SuiteResult(tuple(self._told), is_complete=False)))


FILES: dict[str, tuple[Callable[[SuiteResult], bytes], str]] = {
    "html": (html_report, "report.html"),
    "json": (json_report, "report.json"),
    "junit": (junit_report, "junit.xml"),
}
NAMES = ("console", "github", *FILES)


def reporter_of(declared: str, *, console: Console | None = None) -> Reporter:
    """The reporter that is declared as `name` or `name=path`.

    `console` takes no path, `github` may have one: the file that its step summary is added to. The others need one.
    `console` is where that reporter prints; by default standard output.

    Raises:
        InputError: there is no such reporter, or its path is missing or not wanted.
    """
    name, _, path = declared.partition("=")
    if name not in NAMES:
        hint = suggestion(name, NAMES, kind="reporters")
        raise InputError(f"no reporter is called {name!r}", source=declared, hint=hint)
    if name == "console":
        if path:
            raise InputError("the console takes no path", source=declared, hint="console")
        return ConsoleReporter(console)
    if name == "github":
        return GithubReporter(Path(path) if path else None)
    render, example = FILES[name]
    if not path:
        raise InputError("a path is missing", source=declared, hint=f"{name}={example}")
    return FileReporter(Path(path), render)
