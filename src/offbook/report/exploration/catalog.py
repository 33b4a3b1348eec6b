"""Reporters of explorations by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from offbook.errors import InputError
from offbook.explore.exploration import Exploration
from offbook.report.exploration.account import Account, Manner, Reproduce
from offbook.report.exploration.console_reporter import ExplorationConsoleReporter
from offbook.report.exploration.exploration_json import exploration_json
from offbook.report.exploration.exploration_junit import exploration_junit
from offbook.report.exploration.exploration_page import exploration_page
from offbook.report.exploration.file_reporter import ExplorationFileReporter
from offbook.report.exploration.github_reporter import ExplorationGithubReporter
from offbook.report.exploration.reporter import ExplorationReporter
from offbook.wording import suggestion

FILES: dict[str, tuple[Callable[[Account], bytes], str]] = {
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
    manner = Manner(reproduce, before)
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
