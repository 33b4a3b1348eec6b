"""Reporters by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from offbook.errors import InputError
from offbook.report.console_report import ConsoleReporter
from offbook.report.file_reporter import FileReporter
from offbook.report.github_report import GithubReporter
from offbook.report.html_report import html_report
from offbook.report.json_report import json_report
from offbook.report.junit_report import junit_report
from offbook.report.reporter import Reporter
from offbook.scenarios.result import SuiteResult
from offbook.wording import suggestion

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
