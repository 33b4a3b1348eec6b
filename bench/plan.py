"""How much is measured: the sizes and repeats of a full or a quick run, and where progress is shown."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from bench.library import Library


class Plan(Struct, frozen=True):
    """A run of the benchmark."""

    library: Library
    is_quick: bool
    tell: Callable[[str], None]
    """Takes one line on what is being measured now."""

    def sizes(self, *sizes: int) -> list[int]:
        """The sizes to measure: all, or all but the largest in a quick run."""
        return list(sizes[:-1] if self.is_quick else sizes)

    def repeats(self, full: int, quick: int) -> int:
        return quick if self.is_quick else full
