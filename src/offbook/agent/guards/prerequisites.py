"""The guard that wants certain tools to have run before others."""

from __future__ import annotations

from collections.abc import Mapping

from offbook.agent import nudges
from offbook.agent.guards.guard import Guard
from offbook.agent.message import MessageType
from offbook.agent.progress import Progress
from offbook.agent.rules import Prerequisite
from offbook.agent.turn import Turn
from offbook.errors import AgentError, PrerequisiteError
from offbook.messages import ToolCall


class Prerequisites(Guard):
    """Refuses calls of a tool before what it needs has succeeded."""

    type = MessageType.PREREQUISITE_NUDGE

    def __init__(self, needs: Mapping[str, tuple[Prerequisite, ...]], progress: Progress, *, limit: int) -> None:
        super().__init__(limit)
        self._needs, self._progress = needs, progress

    def find(self, turn: Turn, *, attempt: int) -> dict[int, str]:
        told = {}
        for position, call in enumerate(turn.calls):
            if call.tool in self._needs and (missing := self._missing(call)):
                told[position] = nudges.prerequisite(call.tool, missing, attempt=attempt)
        return told

    def give_up(self, turn: Turn, told: dict[int, str]) -> AgentError:
        call = turn.calls[next(iter(told))]
        return PrerequisiteError(call.tool, attempts=self.refusals, missing=self._missing(call))

    def _missing(self, call: ToolCall) -> list[str]:
        missing = []
        for needed in self._needs[call.tool]:
            if needed.match_arg is None:
                if not self._progress.has_done(needed.tool):
                    missing.append(needed.tool)
                continue
            if needed.match_arg not in call.args:
                missing.append(f"{needed.tool} with the same {needed.match_arg}")
                continue
            value = call.args[needed.match_arg]
            if not self._progress.has_done_with(needed.tool, needed.match_arg, value):
                missing.append(f"{needed.tool}({needed.match_arg}={value!r})")
        return missing
