"""Context management: the size of transcripts, and the strategies that keep it within a budget."""

from offbook.agent.context.manager import ContextManager, CountTokens, estimated_tokens
from offbook.agent.context.strategies import (
    CompactResult,
    CompactStrategy,
    NoCompact,
    Size,
    SlidingWindowCompact,
    TieredCompact,
    TranscriptSummary,
    Unit,
    join_units,
    split_units,
)

__all__ = [
    "CompactResult",
    "CompactStrategy",
    "ContextManager",
    "CountTokens",
    "NoCompact",
    "Size",
    "SlidingWindowCompact",
    "TieredCompact",
    "TranscriptSummary",
    "Unit",
    "estimated_tokens",
    "join_units",
    "split_units",
]
