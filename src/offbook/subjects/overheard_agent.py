"""An agent under test whose failures are overheard, whatever a conversation makes of them."""

from __future__ import annotations

from collections.abc import Callable

from offbook.scenarios.target import AgentAnswer, Dialogue, Stage, Target

OnError = Callable[[Exception], object]


class OverheardAgent:
    """The agent itself; `on_error` is told what it raises."""

    def __init__(self, target: Target, on_error: OnError) -> None:
        self.name, self._target, self._on_error = target.name, target, on_error

    def begin(self, stage: Stage) -> OverheardDialogue:
        return OverheardDialogue(self._target.begin(stage), self._on_error)


class OverheardDialogue:
    """A conversation with it."""

    def __init__(self, dialogue: Dialogue, on_error: OnError) -> None:
        self._dialogue, self._on_error = dialogue, on_error

    async def say(self, text: str) -> AgentAnswer:
        try:
            return await self._dialogue.say(text)
        except Exception as error:
            self._on_error(error)
            raise
