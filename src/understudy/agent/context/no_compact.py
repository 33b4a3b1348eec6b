"""The strategy that leaves everything as it is."""

from collections.abc import Sequence
from math import inf

from understudy.agent.context.size import Size
from understudy.agent.context.strategy import CompactResult, CompactStrategy
from understudy.agent.message import Message


class NoCompact(CompactStrategy):
    """Never touches anything."""

    starts_at = inf

    def compact(
        self, messages: Sequence[Message], *, budget_tokens: int, size: Size, step_hint: str = ""
    ) -> CompactResult:
        return CompactResult(messages)
