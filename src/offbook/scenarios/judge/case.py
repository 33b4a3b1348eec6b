"""What is put before a metric, and what it finds."""

from __future__ import annotations

from msgspec import Struct

from offbook.messages import JsonObject
from offbook.scenarios.asking.data import as_data, plain
from offbook.scenarios.mocks import MockedCall
from offbook.scenarios.result import TurnRecord
from offbook.scenarios.scenario import Scenario
from offbook.scenarios.severity import Severity


class Case(Struct, frozen=True):
    """A conversation as far as it matters: up to the turn that is judged, or whole.

    `step_id` names the calls of a model that it takes to judge it.
    """

    scenario: Scenario
    turns: tuple[TurnRecord, ...]
    step_id: str

    def text(self) -> str:
        """The case as a model reads it: what the user wants and knows, and what was said and done, as data."""
        scenario = self.scenario
        return as_data(
            "conversation",
            {
                "user_profile": scenario.profile,
                "user_goal": scenario.goal,
                "knowledge": list(scenario.knowledge),
                "turns": [_told_turn(number, turn) for number, turn in enumerate(self.turns, start=1)],
            },
        )


class Finding(Struct, frozen=True):
    """A number or a label, and why. `severity` is set only for a failure."""

    value: float | str
    reason: str = ""
    severity: Severity | None = None


def _told_turn(number: int, turn: TurnRecord) -> JsonObject:
    calls = [_told_call(call) for call in turn.calls]
    return {"turn": number, "user": turn.user, "tool_calls": calls, "agent": turn.agent}


def _told_call(call: MockedCall) -> JsonObject:
    told: JsonObject = {"tool": call.tool, "arguments": plain(call.args)}
    if call.error is not None:
        return told | {"error": call.error}
    return told | ({"result": plain(call.result)} if call.is_answered else {"unanswered": True})
