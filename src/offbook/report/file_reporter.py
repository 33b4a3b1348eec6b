"""A report in a file, from the first moment of the run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from offbook.report.whole_file import write_whole
from offbook.scenarios.result import ScenarioResult, SuiteResult


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
