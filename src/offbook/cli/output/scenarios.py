"""The reports of a scenario run, the output after them, and the exit code."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from offbook.cli import FAILED, FINE, MISMATCH
from offbook.cli.output.console import describe_unused, echo, echo_json, print_message
from offbook.recording.match.cursor import UnusedEntry
from offbook.report import Reporter, reporter_of
from offbook.report.scenarios.json_report import compact_json
from offbook.scenarios.result import PlannedScenario, PlanPlaces, ScenarioResult, SuiteResult, SuiteShard


class JsonScenarioOutput:
    """Prints a run as one line of JSON when it ends."""

    def begin(self, scenarios: int) -> None:
        """Wait for the end."""

    def on_scenario(self, scenario: ScenarioResult) -> None:
        """Wait for the end."""

    def finish(self, result: SuiteResult) -> None:
        echo_json(compact_json(result))


class ReportedInOrder:
    """Reports scenarios in the order of the plan: one that ends early waits for those before it.

    The output of a replay therefore does not depend on the order in which conversations end. Scenarios outside a plan
    are reported as they end.
    """

    def __init__(self, reporter: Reporter, plan: Sequence[PlannedScenario]) -> None:
        self._reporter, self._places = reporter, PlanPlaces(plan)
        self._waiting: dict[int, ScenarioResult] = {}
        self._next = 0

    def begin(self, scenarios: int) -> None:
        self._reporter.begin(scenarios)

    def on_scenario(self, scenario: ScenarioResult) -> None:
        place = self._places.take(scenario)
        if place is None:
            self._reporter.on_scenario(scenario)
            return
        self._waiting[place] = scenario
        while self._next in self._waiting:
            self._reporter.on_scenario(self._waiting.pop(self._next))
            self._next += 1

    def report_waiting(self) -> None:
        """Report the waiting scenarios in order, because the run was interrupted before others ended."""
        for place in sorted(self._waiting):
            self._reporter.on_scenario(self._waiting.pop(place))

    def finish(self, result: SuiteResult) -> None:
        self.report_waiting()
        self._reporter.finish(result)


def scenario_reporters(
    declared: Sequence[str], *, is_json: bool, shard: SuiteShard | None = None
) -> Iterator[Reporter]:
    """Yield the reporters, stdout last: an unwritable file is an error before any output."""
    summary = os.environ.get("GITHUB_STEP_SUMMARY", "")
    for each in declared:
        yield reporter_of(f"github={summary}" if each == "github" and summary else each, shard=shard)
    yield JsonScenarioOutput() if is_json else reporter_of("console")


def end_scenarios(result: SuiteResult, unused: Sequence[UnusedEntry], *, record_again: str, is_json: bool) -> int:
    """Print the part after the reports, and return the exit code.

    It consists of a replay's unused exchanges and, after a mismatch in a replay, the command that records it again.
    """
    if unused:
        echo(describe_unused(list(unused)), err=is_json)
    code = _exit_code(result)
    if code == MISMATCH and record_again:
        print_message("hint: ", f"record it again, or undo the change: {record_again}", is_err=is_json)
    return code


def _exit_code(result: SuiteResult) -> int:
    failures = [failure for each in result.scenarios for held in each.conversations for failure in held.failures]
    if any(failure.kind == "mismatch" for failure in failures):
        return MISMATCH
    return FINE if result.passed else FAILED
