"""The guard that wants the required steps done before the run ends."""

from __future__ import annotations

from offbook.agent import nudges
from offbook.agent.guards.guard import Guard
from offbook.agent.message import MessageType
from offbook.agent.progress import Progress
from offbook.agent.rules import Rules
from offbook.agent.turn import Turn
from offbook.errors import AgentError, StepEnforcementError

ANSWER = "answer"
"""What ending by text is called, where it takes a terminal tool's place."""


class RequiredSteps(Guard):
    """Refuses to end the run, by a terminal tool or by text, while a required step has not succeeded."""

    type = MessageType.STEP_NUDGE

    def __init__(self, rules: Rules, progress: Progress, *, limit: int) -> None:
        super().__init__(limit)
        self._required, self._terminal, self._progress = rules.required_steps, rules.terminal_tools, progress

    def find(self, turn: Turn, *, attempt: int) -> dict[int, str]:
        ending = self._ending(turn)
        if not ending or not (pending := self.pending()):
            return {}
        return {
            position: nudges.premature(f"call {tool}" if turn.calls else tool, pending, attempt=attempt)
            for position, tool in ending.items()
        }

    def give_up(self, turn: Turn, told: dict[int, str]) -> AgentError:
        tool = next(iter(self._ending(turn).values()))
        return StepEnforcementError(tool, attempts=self.refusals, pending_steps=self.pending())

    def pending(self) -> list[str]:
        """The required steps that have not succeeded, in order."""
        return [step for step in self._required if not self._progress.has_done(step)]

    def _ending(self, turn: Turn) -> dict[int, str]:
        """What would end the run, by its position."""
        if not turn.calls:
            return {0: ANSWER}
        return {position: call.tool for position, call in enumerate(turn.calls) if call.tool in self._terminal}
