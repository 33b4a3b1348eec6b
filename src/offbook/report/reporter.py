"""The seam for reports: what is told of a run of scenarios, and when."""

from __future__ import annotations

from typing import Protocol

from offbook.scenarios.result import ScenarioResult, SuiteResult


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
