"""The seam for guards: each looks at a turn and may refuse it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from offbook.agent.message import MessageType
from offbook.agent.turn import Objection, Turn
from offbook.errors import AgentError


class Guard(ABC):
    """Refuses turns that break one rule, and gives up on a model that breaks it more than `limit` times in a row.

    A turn that gets past the guard starts the count afresh. A subclass implements `find` and `give_up`.
    """

    type: ClassVar[MessageType]
    """What kind of message tells the model about it."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.refusals = 0

    def check(self, turn: Turn) -> Objection | None:
        """What is wrong with the turn, if something is."""
        told = self.find(turn, attempt=self.refusals + 1)
        if not told:
            self.refusals = 0
            return None
        self.refusals += 1
        error = self.give_up(turn, told) if self.refusals > self.limit else None
        return Objection(self.type, told, error)

    @abstractmethod
    def find(self, turn: Turn, *, attempt: int) -> dict[int, str]:
        """What to tell the model, by the position of the call that breaks the rule; position 0 if there are no calls.

        `attempt` is how often in a row the rule is broken if it is broken now.
        """

    @abstractmethod
    def give_up(self, turn: Turn, told: dict[int, str]) -> AgentError:
        """The error to end the run with."""
