"""The seam for reports of explorations: what is told of one, and when."""

from __future__ import annotations

from typing import Protocol

from offbook.explore.exploration import Exploration, Explored


class ExplorationReporter(Protocol):
    """Hears how an exploration goes: that it begins, of each case as it is judged, and of the whole.

    `begin` and `told` fit `on_begin` and `on_case` of an Explorer. A reporter that writes a file raises InputError
    where it cannot.
    """

    def begin(self, exploration: Exploration, cases: int) -> None:
        """The clean run has been made, and so many cases follow; pairs of faults come on top."""
        ...

    def told(self, explored: Explored) -> None:
        """A case was run and judged."""
        ...

    def finish(self, exploration: Exploration, *, is_complete: bool = True) -> None:
        """The exploration has ended, or was cut off and is not complete."""
        ...


class ExplorationReporters:
    """Several reporters as one, each told in the order given."""

    def __init__(self, *reporters: ExplorationReporter) -> None:
        self._reporters = reporters

    def begin(self, exploration: Exploration, cases: int) -> None:
        for reporter in self._reporters:
            reporter.begin(exploration, cases)

    def told(self, explored: Explored) -> None:
        for reporter in self._reporters:
            reporter.told(explored)

    def finish(self, exploration: Exploration, *, is_complete: bool = True) -> None:
        for reporter in self._reporters:
            reporter.finish(exploration, is_complete=is_complete)


def report_exploration(exploration: Exploration, reporter: ExplorationReporter) -> None:
    """Report an exploration that is over."""
    reporter.begin(Exploration(exploration.subject, exploration.clean), len(exploration.explored))
    for explored in exploration.explored:
        reporter.told(explored)
    reporter.finish(exploration)
