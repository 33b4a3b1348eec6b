"""Counting what happened, in as little memory however long it goes on."""

from __future__ import annotations

from collections import Counter

from offbook.events import AttemptEnded, AttemptStarted, CallEnded, CallStarted, Event


class Tally:
    """A sink that counts events by kind, and ended calls by how they ended."""

    def __init__(self) -> None:
        self.kinds: Counter[type] = Counter()
        self.ends: Counter[str] = Counter()

    def emit(self, event: Event) -> None:
        self.kinds[type(event)] += 1
        if isinstance(event, CallEnded):
            self.ends[event.error or "answered"] += 1

    def unended(self) -> list[str]:
        """What has started and not ended, or ended twice."""
        pairs = ((CallStarted, CallEnded), (AttemptStarted, AttemptEnded))
        return [
            f"{self.kinds[start]:,} {start.__name__} and {self.kinds[end]:,} {end.__name__}"
            for start, end in pairs
            if self.kinds[start] != self.kinds[end]
        ]
