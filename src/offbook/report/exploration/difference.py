"""How the tools that a run called differ from those of the clean run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import TypeAlias

from msgspec import Struct

from offbook.report.encoding import encoded
from offbook.report.exploration.timeline import Step

MAX_COMPARED = 1000
"""How many calls are laid side by side with care; what differs in longer runs is told as one piece."""

Ends: TypeAlias = tuple[int, int, int, int]
"""Where a piece begins and ends in the clean run, and in the other."""


class Pair(Struct, frozen=True):
    """A call of the clean run beside the same one of the run; None where one of them did not make it."""

    clean: Step | None
    run: Step | None

    @property
    def is_same(self) -> bool:
        """Whether it was called by both, and gave the same."""
        return self.clean == self.run


def differences(clean: Sequence[Step], run: Sequence[Step]) -> list[Pair]:
    """The calls of tools of both runs, side by side."""
    ours, theirs = ([step for step in steps if step.kind == "tool"] for steps in (clean, run))
    pairs: list[Pair] = []
    for is_equal, (i1, i2, j1, j2) in _pieces([_key(step) for step in ours], [_key(step) for step in theirs]):
        if is_equal:
            pairs += [Pair(ours[i1 + place], theirs[j1 + place]) for place in range(i2 - i1)]
        else:
            pairs += [Pair(step, None) for step in ours[i1:i2]] + [Pair(None, step) for step in theirs[j1:j2]]
    return pairs


def _pieces(ours: list[bytes], theirs: list[bytes]) -> Iterator[tuple[bool, Ends]]:
    """The pieces that are equal or not: first what both begin with, then the rest."""
    places = enumerate(zip_longest(ours, theirs))
    alike = next((place for place, (one, other) in places if one != other), len(ours))
    yield True, (0, alike, 0, alike)
    left, right = ours[alike:], theirs[alike:]
    if len(left) + len(right) > MAX_COMPARED:
        yield False, (alike, len(ours), alike, len(theirs))
        return
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        yield tag == "equal", (alike + i1, alike + i2, alike + j1, alike + j2)


def _key(step: Step) -> bytes:
    return encoded(step.asks_for)
