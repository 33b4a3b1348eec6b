"""How many cases there were, and what became of them, in words."""

from __future__ import annotations

from offbook.explore.comparison import Change, Comparison
from offbook.explore.exploration import Exploration
from offbook.wording import counted


def totals(exploration: Exploration) -> str:
    """`44 cases, 13 findings: 1 repeated side effect, 12 crashed, 31 recovered`"""
    told = tally_told(exploration)
    found = counted(len(exploration.findings), "finding")
    left = f"; the budget left out {counted(exploration.left, 'case')}" if exploration.left else ""
    return f"{counted(len(exploration.explored), 'case')}, {found}{told and f': {told}'}{left}"


def tally_told(exploration: Exploration) -> str:
    """`1 repeated side effect, 12 crashed, 31 recovered`"""
    return ", ".join(f"{count:,} {verdict}" for verdict, count in exploration.tally.items())


def comparison_totals(comparison: Comparison) -> str:
    """`compared with before: 2 worse, 1 other change, 41 the same`"""
    worse = len(comparison.worse)
    others = counted(len(comparison.changes) - worse, "other change")
    return f"compared with before: {worse:,} worse, {others}, {comparison.same:,} the same"


def change_told(change: Change) -> str:
    """`recovered → crashed`, where a case that one of the two does not have is `no such case`."""
    return f"{change.before or 'no such case'} → {change.after or 'no such case'}"
