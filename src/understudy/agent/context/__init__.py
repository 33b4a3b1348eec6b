"""Context management: the size of transcripts, and the strategies that keep it within a budget."""

from understudy.agent.context.manager import ContextManager
from understudy.agent.context.no_compact import NoCompact
from understudy.agent.context.size import CountTokens, Size, estimated_tokens
from understudy.agent.context.sliding_window import SlidingWindowCompact
from understudy.agent.context.strategy import CompactResult, CompactStrategy
from understudy.agent.context.summary import Summary
from understudy.agent.context.tiered import TieredCompact
from understudy.agent.context.units import Unit, join_units, split_units

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
