"""Exploring a function: an agent in this process, written with offbook's own parts or by hand."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from offbook.explore.divergence import STOP, Divergence
from offbook.explore.performance import USUAL, Deadlines, Performance
from offbook.explore.run import Run
from offbook.explore.stage import Stage
from offbook.explore.theatre import Theatre
from offbook.faults import FaultPlan
from offbook.recording.stores.locate import open_store


class FunctionSubject:
    """A function that takes a stage and gives a result, run on a recording.

    Args:
        declared: the errors that the function is said to raise when it has to give up, by class or name.

    Raises:
        InputError: the recording cannot be read.
    """

    def __init__(
        self,
        function: Callable[[Stage], Any],
        recording: str | os.PathLike[str],
        *,
        declared: Sequence[type[BaseException] | str] = (),
        divergence: Divergence = STOP,
        deadlines: Deadlines = USUAL,
    ) -> None:
        self.name = getattr(function, "__name__", "function")
        self._theatre = Theatre(open_store(recording).read(), divergence)
        self._performance = Performance(function, declared=declared, deadlines=deadlines)

    def run(self, plan: FaultPlan) -> Run:
        return self._performance.run(self._theatre.stage(plan))

    def close(self) -> None:
        self._theatre.close()
