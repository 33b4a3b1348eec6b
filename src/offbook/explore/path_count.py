"""Counting what a gateway does to recover."""

from __future__ import annotations

from collections import Counter

from offbook.events import BreakerChanged, Event, FallbackTaken, RetryScheduled


class PathCount:
    """A sink that counts retries, fallbacks and changes of breakers."""

    def __init__(self) -> None:
        self.paths = Counter[str]()

    def emit(self, event: Event) -> None:
        match event:
            case RetryScheduled():
                self.paths["retry"] += 1
            case FallbackTaken():
                self.paths["fallback"] += 1
            case BreakerChanged(state=state):
                self.paths[f"breaker {state}"] += 1
