"""The reporter protocol of scenario runs, reporters by name, several as one, and reports written to a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from rich.console import Console

from offbook.report.github import GithubReporter
from offbook.report.junit import junit_report
from offbook.report.reporter import parse_reporter, write_report
from offbook.report.scenarios.console import ConsoleReporter
from offbook.report.scenarios.json_report import html_report, json_report
from offbook.scenarios.result import ScenarioResult, SuiteResult, SuiteShard


class Reporter(Protocol):
    """Is called when a run of scenarios begins, after each scenario, and at the end.

    A reporter that cannot write its file raises InputError.
    """

    def begin(self, scenarios: int) -> None:
        """Begin a run with the number of scenarios. One with two agents counts twice."""
        ...

    def on_scenario(self, scenario: ScenarioResult) -> None:
        """Report a scenario that ended. They end in any order."""
        ...

    def finish(self, result: SuiteResult) -> None:
        """Report the run. It ended early if it is not complete. `on_scenario` was called for all its scenarios."""
        ...


class Reporters:
    """Several reporters as one, called in the order given."""

    def __init__(self, *reporters: Reporter) -> None:
        self._reporters = reporters

    def begin(self, scenarios: int) -> None:
        for reporter in self._reporters:
            reporter.begin(scenarios)

    def on_scenario(self, scenario: ScenarioResult) -> None:
        for reporter in self._reporters:
            reporter.on_scenario(scenario)

    def finish(self, result: SuiteResult) -> None:
        for reporter in self._reporters:
            reporter.finish(result)


def report(result: SuiteResult, reporter: Reporter) -> None:
    """Report a run that has ended."""
    reporter.begin(len(result.scenarios))
    for scenario in result.scenarios:
        reporter.on_scenario(scenario)
    reporter.finish(result)


class FileReporter:
    """Writes a report of the scenarios so far to a file, and of the whole run at the end.

    The first write happens before any model call, to find an unwritable path and to replace an earlier report. Further
    writes follow each of the first hundred scenarios, and then each growth by a twentieth, to limit the time spent.
    """

    def __init__(self, path: Path, render: Callable[[SuiteResult], bytes], *, shard: SuiteShard | None = None) -> None:
        self._path, self._render, self._shard = path, render, shard
        self._ended: list[ScenarioResult] = []
        self._written = 0

    def begin(self, scenarios: int) -> None:
        self._ended = []
        self._write_partial()

    def on_scenario(self, scenario: ScenarioResult) -> None:
        self._ended.append(scenario)
        if (len(self._ended) - self._written) * 20 >= len(self._ended) - 100:
            self._write_partial()

    def finish(self, result: SuiteResult) -> None:
        write_report(self._path, self._render(result))

    def _write_partial(self) -> None:
        self._written = len(self._ended)
        partial = SuiteResult(tuple(self._ended), is_complete=False, shard=self._shard)
        write_report(self._path, self._render(partial))


FILES = {"html": "report.html", "json": "report.json", "junit": "junit.xml"}
RENDERERS: dict[str, Callable[[SuiteResult], bytes]] = {
    "html": html_report,
    "json": json_report,
    "junit": junit_report,
}


def reporter_of(declared: str, *, console: Console | None = None, shard: SuiteShard | None = None) -> Reporter:
    """Return the reporter declared as `name` or `name=path`.

    `console` takes no path, and prints to `console` or to stdout. `github` accepts a path for its step summary. The
    others need one. `shard` is the part of the run, if it is one.

    Raises:
        InputError: the reporter does not exist, or its path is missing or not allowed.
    """
    name, path = parse_reporter(declared, FILES)
    if name == "github":
        return GithubReporter(path)
    return ConsoleReporter(console) if path is None else FileReporter(path, RENDERERS[name], shard=shard)
