"""Context management: the size of transcripts, and the strategies that keep it within a budget."""

from offbook.agent.context.manager import ContextManager
from offbook.agent.context.no_compact import NoCompact
from offbook.agent.context.size import CountTokens, Size, estimated_tokens
from offbook.agent.context.sliding_window import SlidingWindowCompact
from offbook.agent.context.strategy import CompactResult, CompactStrategy
from offbook.agent.context.summary import Summary
from offbook.agent.context.tiered import TieredCompact
from offbook.agent.context.units import Unit, join_units, split_units

__all__ = [
    "CompactResult",
    "CompactStrategy",
    "ContextManager",
    "CountTokens",
    "NoCompact",
    "Size",
    "SlidingWindowCompact",
    "Summary",
    "TieredCompact",
    "Unit",
    "estimated_tokens",
    "join_units",
    "split_units",
]
