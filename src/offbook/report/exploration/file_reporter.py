"""A report of an exploration in a file, from its first moment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from offbook.explore.exploration import Exploration, Explored
from offbook.explore.run import Run
from offbook.report.exploration.account import Account, Manner
from offbook.report.whole_file import write_whole


class ExplorationFileReporter:
    """Keeps a file that tells of the cases so far, and at the end of the whole exploration.

    It is written when the exploration begins, so that a path that cannot be written is found before any case runs,
    and then each time that the cases have become twice as many: what is killed leaves at least half of them, and the
    writing costs no more than twice that of the end.
    """

    def __init__(self, path: Path, render: Callable[[Account], bytes], manner: Manner) -> None:
        self._path, self._render, self._manner = path, render, manner
        self._begun = Exploration("", Run())
        self._told: list[Explored] = []
        self._written = 0

    def begin(self, exploration: Exploration, cases: int) -> None:
        self._begun, self._told, self._written = exploration, [], 0
        self.finish(exploration, is_complete=False)

    def told(self, explored: Explored) -> None:
        self._told.append(explored)
        if len(self._told) >= 2 * self._written:
            self._written = len(self._told)
            self.finish(replace(self._begun, explored=tuple(self._told)), is_complete=False)

    def finish(self, exploration: Exploration, *, is_complete: bool = True) -> None:
        write_whole(self._path, self._render(self._manner.account(exploration, is_complete=is_complete)))
