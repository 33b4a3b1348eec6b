"""The theatre: a recording from which runs are staged, the clean one first."""

from __future__ import annotations

from offbook.explore.divergence import STOP, Divergence
from offbook.explore.models import RecordedModels
from offbook.explore.recorded_tools import ExploredTools, RecordedTools
from offbook.explore.stage import Stage
from offbook.faults import FaultPlan
from offbook.recording.stores.store import Shelf

SPARE_CALLS = 100
"""How many calls of models a run may make beyond five times those of the clean one, before it counts as endless."""

MAX_CLEAN_CALLS = 10_000


class Theatre:
    """Stages runs of one recording. The first must be the clean one: it writes the script that the others are read."""

    def __init__(self, shelf: Shelf, divergence: Divergence = STOP) -> None:
        self._shelf = shelf
        self._models = RecordedModels(shelf, divergence)
        self._tools = RecordedTools(shelf.tools, divergence)
        self._clean: Stage | None = None

    def stage(self, plan: FaultPlan) -> Stage:
        """A stage for the next run."""
        if self._clean is None:
            self._clean = Stage(plan, models=self._models.clean(), tools=self._recorded(), max_calls=MAX_CLEAN_CALLS)
            return self._clean
        max_calls = max_calls_after(len(self._clean.calls))
        return Stage(plan, models=self._models.again(), tools=self._recorded(), max_calls=max_calls)

    def close(self) -> None:
        self._shelf.close()

    def _recorded(self) -> ExploredTools | None:
        """The recorded tools, or None where the real ones are to run, as nothing of them is recorded."""
        if self._tools.is_empty:
            return None
        return self._tools.clean() if self._clean is None else self._tools.again()


def max_calls_after(clean_calls: int) -> int:
    """How many calls a run may make, where the clean one has made so many."""
    return 5 * clean_calls + SPARE_CALLS
