"""A run of scenarios on standard output, for machines."""

from __future__ import annotations

import typer

from offbook.report.json_report import compact_json
from offbook.scenarios.result import ScenarioResult, SuiteResult


class JsonOutput:
    """Prints a run as one line of JSON, when it has ended."""

    def begin(self, scenarios: int) -> None:
        """Wait for the end."""

    def told(self, scenario: ScenarioResult) -> None:
        """Wait for the end."""

    def finish(self, result: SuiteResult) -> None:
        typer.echo(compact_json(result))
