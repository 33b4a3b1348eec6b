"""Who asks, by the step of a call: which scenario's conversation it is of, and whose part in it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal, TypeAlias

from msgspec import Struct

Part: TypeAlias = Literal["user", "judge", "agent"]
_REST = re.compile(r"(\d+)/(user$|judge\.|agent(?=\.|$))")


class Asker(Struct, frozen=True):
    """Who makes a call: a part in a conversation of a scenario with an agent."""

    scenario: str
    agent: str
    part: Part


class StepNames:
    """Reads steps like `books a room/billing/1/judge.helpfulness`, of these scenarios with these agents."""

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self._pairs = sorted(pairs, key=lambda pair: len(pair[0]), reverse=True)

    def asker(self, step_id: str | None) -> Asker | None:
        """Who makes the call of that step; None if it is of no conversation of these."""
        for scenario, agent in self._pairs:
            start = f"{scenario}/{agent}/"
            if step_id is not None and step_id.startswith(start) and (rest := _REST.match(step_id, len(start))):
                return Asker(scenario, agent, _part(rest[2]))
        return None


def _part(word: str) -> Part:
    if word == "user":
        return "user"
    return "agent" if word == "agent" else "judge"
