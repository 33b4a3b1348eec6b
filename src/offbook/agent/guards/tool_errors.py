"""The guard that ends a run in which tools keep failing."""

from collections.abc import Iterable

from offbook.errors import ToolExecutionError, ToolResolutionError
from offbook.tools import ToolOutcome


class ToolErrors:
    """Counts turns in a row in which a tool failed; a turn without a failure starts the count afresh.

    A ToolResolutionError is no failure: the tool works, and the model may ask it something else.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.failures = 0

    def record(self, outcomes: Iterable[ToolOutcome]) -> ToolExecutionError | None:
        """Take note of a turn's outcomes; the error to end the run with, if there were too many."""
        failed = None
        for outcome in outcomes:
            if outcome.error is not None and not isinstance(outcome.error, ToolResolutionError):
                failed = outcome
                break
        if failed is None or failed.error is None:
            self.failures = 0
            return None
        self.failures += 1
        return ToolExecutionError(failed.call.tool, failed.error) if self.failures > self.limit else None
