"""The guard that wants valid tool calls: known tools, with arguments that they take."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from offbook.agent import nudges
from offbook.agent.guards.guard import Guard
from offbook.agent.message import MessageType
from offbook.agent.turn import Turn
from offbook.errors import AgentError, ToolArgumentsError, ToolCallError
from offbook.messages import ToolCall
from offbook.tools import Toolbox

RetryNudge: TypeAlias = Callable[[str], str]


class Validation(Guard):
    """Refuses text, tools that do not exist, and arguments that do not fit their tool.

    A call that a fault makes fail is let through whatever its arguments, to fail when it is run.

    Args:
        text_ends: whether text is an answer, rather than a call that went wrong.
        retry_nudge: what to say to text, given that text.
    """

    type = MessageType.RETRY_NUDGE

    def __init__(
        self, toolbox: Toolbox, limit: int, *, text_ends: bool = False, retry_nudge: RetryNudge | None = None
    ) -> None:
        super().__init__(limit)
        self._toolbox, self._text_ends = toolbox, text_ends
        self._retry_nudge = retry_nudge or (lambda _: nudges.retry(toolbox))

    def find(self, turn: Turn, *, attempt: int) -> dict[int, str]:
        if not turn.calls:
            is_answer = self._text_ends and turn.text.strip()
            return {} if is_answer else {0: self._retry_nudge(turn.text)}
        told = {}
        for position, call in enumerate(turn.calls):
            wrong = self._wrong_with(call)
            if wrong is not None:
                told[position] = wrong
        return told

    def give_up(self, turn: Turn, told: dict[int, str]) -> AgentError:
        raw = "\n".join(f"{call.tool}({call.arguments})" for call in turn.calls)
        reason = next(iter(told.values())) if turn.calls else "the model keeps answering in text"
        return ToolCallError(reason, raw_response=raw or turn.text)

    def _wrong_with(self, call: ToolCall) -> str | None:
        tool = self._toolbox.get(call.tool)
        if tool is None:
            return nudges.unknown_tool(call.tool, self._toolbox)
        if call.raw_arguments is not None:
            return nudges.unreadable_arguments(call)
        if call.error is not None:
            return None
        try:
            tool.spec.check(call.args)
        except ToolArgumentsError as error:
            return nudges.invalid_arguments(call, error.problems)
        return None
