"""Who asks, by the step of a call: which scenario's conversation it is of, and whose part in it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal, TypeAlias

from msgspec import Struct

from offbook.scenarios.judge.error_grouping import STEP as GROUPING_STEP

Part: TypeAlias = Literal["user", "judge", "agent"]
_REST = re.compile(r"(\d+)/(user$|judge\.|agent(?=\.|$))")


class Asker(Struct, frozen=True):
    """Who makes a call: a part in a conversation of a scenario with an agent."""

    scenario: str
    agent: str
    part: Part


OF_THE_RUN = Asker("", "", "judge")
"""Who asks about a run as a whole, once all conversations have ended."""


class StepNames:
    """Reads steps like `books a room/billing/1/judge.helpfulness`, of these scenarios with these agents.

    The one step of a run as a whole is `judge.error_groups`.
    """

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self._pairs = sorted(pairs, key=lambda pair: len(pair[0]), reverse=True)

    def asker(self, step_id: str | None) -> Asker | None:
        """Who makes the call of that step; None if it is of no conversation of these, nor of the run."""
        if step_id == GROUPING_STEP:
            return OF_THE_RUN
        for scenario, agent in self._pairs:
            start = f"{scenario}/{agent}/"
            if step_id is not None and step_id.startswith(start) and (rest := _REST.match(step_id, len(start))):
                return Asker(scenario, agent, _part(rest[2]))
        return None


def _part(word: str) -> Part:
    if word == "user":
        return "user"
    return "agent" if word == "agent" else "judge"
