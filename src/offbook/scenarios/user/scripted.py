"""A user who keeps to a script."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from offbook.scenarios.result import TurnRecord
from offbook.scenarios.scenario import ScriptedTurn
from offbook.scenarios.user.move import UserMove


class ScriptedUser:
    """Says the lines of a script in order, whatever the agent answers, and is done with the last one."""

    def __init__(self, turns: Iterable[ScriptedTurn | str]) -> None:
        self._lines = tuple(turn if isinstance(turn, str) else turn.says for turn in turns)

    async def next(self, turns: Sequence[TurnRecord]) -> UserMove:
        """The line after as many as there have been turns."""
        spoken = len(turns)
        is_last = spoken + 1 >= len(self._lines)
        says = self._lines[spoken] if spoken < len(self._lines) else None
        return UserMove(says, is_done=is_last, reason="the script ends here" if is_last else "", is_scripted=True)
