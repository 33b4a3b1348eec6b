"""The results of conversations, scenarios and whole runs, and the severities of failures."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, get_args

from msgspec import Struct

from offbook.scenarios.mocks import MockedCall

Severity = Literal["low", "medium", "high", "critical"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)


def worst_severity(severities: Iterable[Severity]) -> Severity:
    """The gravest of them, of which there must be one."""
    return max(severities, key=SEVERITIES.index)


ConversationEnding = Literal["goal_reached", "script_done", "gave_up", "max_turns", "error"]
"""How a conversation ended: the simulated user was satisfied, or stopped without success; the script was
played; too many turns; something failed."""
FailureKind = Literal["error", "mismatch", "assertion", "severity", "threshold", "judge"]
"""Something broke; a replay had no answer; a trajectory, a finding or a metric is not as it should be; a metric that
must reach a threshold could not be judged."""


class Judgement(Struct, frozen=True):
    """What a judge found: a number or a label, and why. `error` is set when the judge itself failed.

    `turn_index` is None for a judgement of the whole conversation. `severity` is set for failures found.
    """

    metric: str
    value: float | str | None = None
    reason: str = ""
    turn_index: int | None = None
    severity: str | None = None
    error: str | None = None


class AssertionOutcome(Struct, frozen=True):
    """What became of a trajectory assertion; `turn_index` is None for one about the whole conversation."""

    matched: bool
    reason: str = ""
    difference: str = ""
    turn_index: int | None = None


class TurnRecord(Struct, frozen=True):
    """One turn of a conversation: what the user said, the calls the agent made, and what it answered."""

    index: int
    user: str
    agent: str = ""
    calls: tuple[MockedCall, ...] = ()
    latency_s: float = 0.0


class Failure(Struct, frozen=True):
    """One reason why a conversation or a scenario did not pass."""

    kind: FailureKind
    reason: str
    detail: str = ""


class ConversationResult(Struct, frozen=True):
    """A conversation from its first turn to its end, and what is wrong with it, if something is."""

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
        """The trajectory: all tool calls, in order."""
        return tuple(call for turn in self.turns for call in turn.calls)


class ScenarioResult(Struct, frozen=True):
    """All conversations of a scenario with one agent. `failures` are those of the scenario as a whole."""

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
        """How many conversations passed."""
        return sum(conversation.passed for conversation in self.conversations)


class ErrorGroup(Struct, frozen=True):
    """Errors with one cause: what it is, how grave they are at worst, and the ids of the conversations they are in."""

    title: str
    severity: Severity
    conversations: tuple[str, ...]
    description: str = ""


class SuiteResult(Struct, frozen=True):
    """A run of scenarios. `is_complete` is False if it was cut off: then it holds what had finished.

    `groups` are its errors by cause, the gravest first, where somebody has grouped them.
    """

    scenarios: tuple[ScenarioResult, ...] = ()
    latency_s: float = 0.0
    is_complete: bool = True
    groups: tuple[ErrorGroup, ...] = ()

    @property
    def passed(self) -> bool:
        return self.is_complete and all(scenario.passed for scenario in self.scenarios)

    @property
    def cost_usd(self) -> float:
        return sum(each.cost_usd for scenario in self.scenarios for each in scenario.conversations)

    @property
    def tokens(self) -> int:
        return sum(each.tokens for scenario in self.scenarios for each in scenario.conversations)
