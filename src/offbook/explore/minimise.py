"""From a plan that fails to the smallest part of it that still does."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from offbook.faults import PlannedFault


def minimised(
    lines: Sequence[PlannedFault], fails: Callable[[tuple[PlannedFault, ...]], bool]
) -> tuple[PlannedFault, ...]:
    """The lines without those that can be left out, one by one, while `fails` stays true."""
    kept = tuple(lines)
    place = 0
    while place < len(kept) and len(kept) > 1:
        without = kept[:place] + kept[place + 1 :]
        if fails(without):
            kept = without
        else:
            place += 1
    return kept
