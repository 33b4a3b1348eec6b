"""A run as GitHub shows it: annotations at the scenarios that failed, and a summary of the step."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TextIO

from understudy.errors import InputError
from understudy.report.markdown import HEAD, failures_of, row_of, totals_of
from understudy.report.note import notes_of
from understudy.report.place import place_of
from understudy.report.wording import fit_for_log, on_one_line
from understudy.scenarios.result import ScenarioResult, SuiteResult

MAX_TITLE_CHARS = 200
MAX_MESSAGE_CHARS = 3000
MAX_SUMMARY_BYTES = 1_000_000  # GitHub drops a summary of more than 1024 KiB
KEPT_FOR_TOTALS = 100_000


class GithubReporter:
    """Prints an `::error` command for each scenario that did not pass, and adds Markdown to the step's summary.

    The summary is only ever added to, as its other writers do: a line when a scenario ends, the rest at the end.

    Args:
        summary: the file that GitHub names in GITHUB_STEP_SUMMARY; without it there is no summary.
        out: where the commands go; by default standard output.
    """

    def __init__(self, summary: Path | None = None, *, out: TextIO | None = None) -> None:
        self._summary, self._out = summary, out
        self._bytes = 0

    def begin(self, scenarios: int) -> None:
        if self._summary is not None:
            self._bytes = self._summary.stat().st_size if self._summary.exists() else 0
        self._add(f"\n{HEAD}")

    def told(self, scenario: ScenarioResult) -> None:
        if not scenario.passed:
            self._print(command_of(scenario))
        self._add(row_of(scenario), spare=KEPT_FOR_TOTALS)

    def finish(self, result: SuiteResult) -> None:
        self._add(totals_of(result))
        for scenario in result.scenarios:
            self._add(failures_of(scenario))

    def _print(self, line: str) -> None:
        out = self._out or sys.stdout
        encoding = out.encoding or "utf-8"
        out.write(line.encode(encoding, "replace").decode(encoding) + "\n")
        out.flush()

    def _add(self, text: str, *, spare: int = 0) -> None:
        """Add the text to the summary, if there is room for it."""
        data = text.encode("utf-8", "replace")
        if self._summary is None or self._bytes + len(data) + spare > MAX_SUMMARY_BYTES:
            return
        try:
            self._summary.parent.mkdir(parents=True, exist_ok=True)
            with self._summary.open("ab") as file:
                file.write(data)
        except OSError as error:
            raise InputError(str(error.strerror), source=str(self._summary)) from error
        self._bytes += len(data)


def command_of(scenario: ScenarioResult) -> str:
    """The workflow command that puts what is wrong with a scenario at the line where it was written."""
    place = place_of(scenario.source)
    agent = f" ({scenario.agent})" if scenario.agent else ""
    properties = {
        "file": fit_for_log(place.file),
        "line": str(place.line or ""),
        "title": on_one_line(f"{scenario.name}{agent}", MAX_TITLE_CHARS),
    }
    lines = (line for note in notes_of(scenario) for line in (note.headline, *note.detail))
    message = "\n".join(lines)[:MAX_MESSAGE_CHARS]
    told = ",".join(f"{name}={_property(value)}" for name, value in properties.items() if value)
    return f"::error {told}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
