"""The strategy that keeps what is recent."""

from collections.abc import Sequence

from offbook.agent.context.limits import checked_keep_recent, checked_share
from offbook.agent.context.size import Size
from offbook.agent.context.strategy import CompactResult, CompactStrategy
from offbook.agent.context.units import first_recent, join_units, split_units
from offbook.agent.message import Message


class SlidingWindowCompact(CompactStrategy):
    """Keeps system prompts, the first user message and the last units, once `threshold` of the budget is exceeded.

    Args:
        keep_recent: how many units are kept, one or more. A call and its results are one unit.
        threshold: a share of the budget.

    Raises:
        InputError: a number that makes no sense.
    """

    def __init__(self, keep_recent: int = 8, *, threshold: float = 0.75) -> None:
        self._keep_recent = checked_keep_recent(keep_recent)
        self.starts_at = checked_share(threshold, source="threshold")

    def compact(
        self, messages: Sequence[Message], *, budget_tokens: int, size: Size, step_hint: str = ""
    ) -> CompactResult:
        if size(messages) <= self.starts_at * budget_tokens:
            return CompactResult(messages)
        units = split_units(messages)
        recent = first_recent(units, self._keep_recent)
        kept = [unit for unit in units[:recent] if unit.is_pinned] + units[recent:]
        return CompactResult(messages) if len(kept) == len(units) else CompactResult(join_units(kept), phase=1)
