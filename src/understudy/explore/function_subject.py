"""Exploring a function: an agent in this process, written with understudy's own parts or by hand."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from understudy.explore.divergence import STOP, Divergence
from understudy.explore.performance import USUAL, Deadlines, Performance
from understudy.explore.run import Run
from understudy.explore.stage import Stage
from understudy.explore.theatre import Theatre
from understudy.faults import FaultPlan
from understudy.recording.stores.locate import open_store


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
