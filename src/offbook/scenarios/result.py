"""The results of conversations, scenarios and runs, and the severities of failures."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, get_args

from msgspec import Struct

from offbook.recording.match.cursor import UnusedEntry
from offbook.scenarios.mocks import MockedCall
from offbook.shard import RunIdentity

Severity = Literal["low", "medium", "high", "critical"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)


def worst_severity(severities: Iterable[Severity]) -> Severity:
    """Return the worst of the severities. Raises ValueError if there are none."""
    return max(severities, key=SEVERITIES.index)


ConversationEnding = Literal["goal_reached", "script_done", "gave_up", "max_turns", "error"]
"""The ending of a conversation: the simulated user reached the goal; the script was done; the user gave up; the limit
of turns was reached; an error occurred.
"""
FailureKind = Literal["error", "mismatch", "assertion", "severity", "threshold", "judge"]
"""An error; a replay without a matching exchange; a failed assertion; a judgement of a severity in `fail_on`; a
metric below its threshold; a metric with a threshold that could not be judged."""


class Judgement(Struct, frozen=True):
    """The value that a judge gave, a number or a label, with the reason. `error` is set if the judge itself failed.

    `turn_index` is None for a judgement of the whole conversation. `severity` is set if the label is a failure.
    """

    metric: str
    value: float | str | None = None
    reason: str = ""
    turn_index: int | None = None
    severity: str | None = None
    error: str | None = None


class AssertionOutcome(Struct, frozen=True):
    """The outcome of a trajectory assertion; `turn_index` is None for one about the whole conversation."""

    matched: bool
    reason: str = ""
    difference: str = ""
    turn_index: int | None = None


class TurnRecord(Struct, frozen=True):
    """A turn of a conversation: the user message, the agent's tool calls, and its answer."""

    index: int
    user: str
    agent: str = ""
    calls: tuple[MockedCall, ...] = ()
    latency_s: float = 0.0


class Failure(Struct, frozen=True):
    """A reason why a conversation or a scenario did not pass."""

    kind: FailureKind
    reason: str
    detail: str = ""


class ConversationResult(Struct, frozen=True, kw_only=True):
    """A conversation from its first turn to its end, with its failures."""

    id: str
    scenario: str
    agent: str
    index: int
    ending: ConversationEnding
    turns: tuple[TurnRecord, ...] = ()
    assertions: tuple[AssertionOutcome, ...] = ()
    judgements: tuple[Judgement, ...] = ()
    failures: tuple[Failure, ...] = ()
    tokens: int = 0
    cost_usd: float = 0.0
    latency_s: float = 0.0

    @property
    def passed(self) -> bool:
        return not self.failures

    @property
    def calls(self) -> tuple[MockedCall, ...]:
        """All tool calls in order: the trajectory."""
        return tuple(call for turn in self.turns for call in turn.calls)


class ScenarioResult(Struct, frozen=True):
    """All conversations of a scenario with one agent. `failures` are those of the scenario as a whole.

    `never_called` names the tools whose mocks were not called.
    """

    name: str
    agent: str
    source: str
    conversations: tuple[ConversationResult, ...] = ()
    failures: tuple[Failure, ...] = ()
    never_called: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        return not self.failures and all(conversation.passed for conversation in self.conversations)

    @property
    def passes(self) -> int:
        """The number of conversations that passed."""
        return sum(conversation.passed for conversation in self.conversations)


class ErrorGroup(Struct, frozen=True):
    """Errors with one cause: its title, their worst severity, and the ids of the affected conversations."""

    title: str
    severity: Severity
    conversations: tuple[str, ...]
    description: str = ""


class PlannedScenario(Struct, frozen=True):
    """A scenario that a run has with an agent."""

    name: str
    agent: str
    source: str

    @property
    def id(self) -> str:
        """The key that decides its shard: `books a room/billing`."""
        return f"{self.name}/{self.agent}"


class PlanPlaces:
    """The places of results in the plan of a run. Equal scenarios get their places in order."""

    def __init__(self, plan: Iterable[PlannedScenario]) -> None:
        self._places: dict[PlannedScenario, list[int]] = {}
        for place, planned in enumerate(plan):
            self._places.setdefault(planned, []).append(place)

    def take(self, result: ScenarioResult) -> int | None:
        """Return the place of a result, once, or None."""
        places = self._places.get(PlannedScenario(result.name, result.agent, result.source))
        return places.pop(0) if places else None


class SuiteShard(Struct, frozen=True, kw_only=True):
    """The shard and the run of a result, and the data for merging besides the results of all shards.

    All shards have the same `run` and `plan`, the scenarios of all shards in order. `concurrency` is the number of
    concurrent conversations, `is_grouped` whether errors are grouped by label. `unused` are the unused exchanges of the
    recordings that the shard `opened`. `record_again` is the command that records a replay again.
    """

    shard: str
    run: RunIdentity
    plan: tuple[PlannedScenario, ...]
    concurrency: int
    is_grouped: bool
    unused: tuple[UnusedEntry, ...] = ()
    opened: tuple[str, ...] = ()
    record_again: str = ""


class SuiteOrigin(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The known origin of a run of scenarios: the version of offbook, the command and the recording.

    `recorded_at` is the time of the last exchange of the recording, or of the recordings in its folder.
    """

    version: str = ""
    command: str = ""
    recording: str = ""
    recorded_at: str = ""


class SuiteResult(Struct, frozen=True):
    """A run of scenarios. `is_complete` is False if it ended early; then it contains what had finished.

    `groups` are the errors by cause, the worst first, if they have been grouped. Only a part of a run has a `shard`.
    """

    scenarios: tuple[ScenarioResult, ...] = ()
    latency_s: float = 0.0
    is_complete: bool = True
    groups: tuple[ErrorGroup, ...] = ()
    shard: SuiteShard | None = None
    origin: SuiteOrigin = SuiteOrigin()

    @property
    def passed(self) -> bool:
        return self.is_complete and all(scenario.passed for scenario in self.scenarios)

    @property
    def cost_usd(self) -> float:
        return sum(each.cost_usd for scenario in self.scenarios for each in scenario.conversations)

    @property
    def tokens(self) -> int:
        return sum(each.tokens for scenario in self.scenarios for each in scenario.conversations)
