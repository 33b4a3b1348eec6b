"""The guard that stops a model which makes the same call for ever."""

from __future__ import annotations

from collections.abc import Container, Iterable

from offbook.agent import nudges
from offbook.agent.guards.guard import Guard
from offbook.agent.message import MessageType
from offbook.agent.progress import canonical
from offbook.agent.turn import Turn
from offbook.errors import AgentError, RepeatedCallError
from offbook.messages import ToolCall
from offbook.tools import ToolOutcome


class Repetition(Guard):
    """Refuses a call that was made `max_same_calls` times with the same outcome, unless its tool is repeatable.

    Other calls in between do not help; another outcome does: polling goes on while something changes.
    """

    type = MessageType.REPETITION_NUDGE

    def __init__(self, repeatable: Container[str], max_same_calls: int, *, limit: int) -> None:
        super().__init__(limit)
        self._repeatable, self._max_same_calls = repeatable, max_same_calls
        self._outcomes: dict[tuple[str, bytes], tuple[str, int]] = {}

    def find(self, turn: Turn, *, attempt: int) -> dict[int, str]:
        told = {}
        for position, call in enumerate(turn.calls):
            if (times := self._times(call)) >= self._max_same_calls:
                told[position] = nudges.repetition(call.tool, times)
        return told

    def give_up(self, turn: Turn, told: dict[int, str]) -> AgentError:
        call = turn.calls[next(iter(told))]
        return RepeatedCallError(call.tool, arguments=call.args, times=self._times(call))

    def record(self, outcomes: Iterable[ToolOutcome]) -> None:
        """Take note of what came of the calls that were made."""
        for outcome in outcomes:
            key = outcome.call.tool, canonical(outcome.call.args)
            last, times = self._outcomes.get(key, ("", 0))
            self._outcomes[key] = outcome.text, times + 1 if outcome.text == last else 1

    def _times(self, call: ToolCall) -> int:
        if call.tool in self._repeatable:
            return 0
        return self._outcomes.get((call.tool, canonical(call.args)), ("", 0))[1]
