"""What an attack is: `attack(seconds=…, seed=…)` makes trials on one front for about so long, and counts its losses."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import count
from typing import Protocol

from msgspec import Struct, field

EXAMPLES = 5
LONG_S = 60.0
"""From how many seconds on a front makes the trials that it promises, however long they take."""


class Outcome(Struct, kw_only=True):
    """What became of the trials of a front. `losses` counts them; `examples` describes the first few."""

    unit: str
    """What one trial is, in the plural: "calls", "files"."""
    trials: int = 0
    losses: int = 0
    examples: list[str] = field(default_factory=list)

    def lose(self, example: str, *, times: int = 1) -> None:
        """Count a loss, and describe it if it is one of the first."""
        self.losses += times
        if len(self.examples) < EXAMPLES:
            self.examples.append(example)

    def add(self, other: Outcome) -> None:
        """Count the trials and losses of another outcome as well."""
        self.trials += other.trials
        self.losses += other.losses
        self.examples = [*self.examples, *other.examples][:EXAMPLES]


class Front(Protocol):
    """An attack that takes about so many seconds; the seed decides what it does."""

    def __call__(self, *, seconds: float, seed: int) -> Outcome: ...


def rounds(seconds: float, *, fewest: int = 1) -> Iterator[int]:
    """Numbers from 0 while the time lasts; so many at least if that is long, and always one."""
    end_s, fewest = time.monotonic() + seconds, fewest if seconds >= LONG_S else 1
    for number in count():
        yield number
        if time.monotonic() >= end_s and number + 1 >= fewest:
            return
