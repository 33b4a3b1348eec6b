"""An exploration on standard output, other than as a picture; and what of it has ended so far."""

from __future__ import annotations

import typer
from msgspec.structs import replace

from offbook.cli.console import say
from offbook.explore.exploration import Exploration, Explored
from offbook.report.exploration import ExplorationReporter
from offbook.report.exploration.account import Manner
from offbook.report.exploration.exploration_json import exploration_json
from offbook.report.exploration.findings import findings_of
from offbook.wording import counted


class SoFar:
    """Keeps what has ended, of an exploration that may be cut off."""

    def __init__(self) -> None:
        self._begun: Exploration | None = None
        self._told: list[Explored] = []

    def begin(self, exploration: Exploration, cases: int) -> None:
        self._begun, self._told = exploration, []

    def told(self, explored: Explored) -> None:
        self._told.append(explored)

    def finish(self, exploration: Exploration, *, is_complete: bool = True) -> None:
        """There is no more to keep."""

    def report(self, reporter: ExplorationReporter) -> bool:
        """Tell a reporter what has ended, if the exploration had begun; gives back whether it had."""
        if self._begun is None:
            return False
        reporter.finish(replace(self._begun, explored=tuple(self._told)), is_complete=False)
        return True


class JsonExplorationOutput:
    """Prints an exploration as JSON, when it has ended."""

    def __init__(self, manner: Manner) -> None:
        self._manner = manner

    def begin(self, exploration: Exploration, cases: int) -> None:
        """Wait for the end."""

    def told(self, explored: Explored) -> None:
        """Wait for the end."""

    def finish(self, exploration: Exploration, *, is_complete: bool = True) -> None:
        typer.echo(exploration_json(self._manner.account(exploration, is_complete=is_complete)), nl=False)


class QuietFindings:
    """Prints the findings, a line each, and nothing else."""

    def begin(self, exploration: Exploration, cases: int) -> None:
        """Wait for the end."""

    def told(self, explored: Explored) -> None:
        """Wait for the end."""

    def finish(self, exploration: Exploration, *, is_complete: bool = True) -> None:
        for finding in findings_of(exploration):
            evidence = next(iter(finding.evidence), "").partition("\n")[0]
            more = len(finding.explored) - 1
            also = f" (and {counted(more, 'further case')})" if more else ""
            say(f"{finding.verdict}: ", f"{finding.first}: {evidence}{also}")
