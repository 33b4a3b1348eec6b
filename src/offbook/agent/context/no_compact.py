"""The strategy that leaves everything as it is."""

from collections.abc import Sequence
from math import inf

from offbook.agent.context.size import Size
from offbook.agent.context.strategy import CompactResult, CompactStrategy
from offbook.agent.message import Message


class NoCompact(CompactStrategy):
    """Never touches anything."""

    starts_at = inf

    def compact(
        self, messages: Sequence[Message], *, budget_tokens: int, size: Size, step_hint: str = ""
    ) -> CompactResult:
        return CompactResult(messages)
