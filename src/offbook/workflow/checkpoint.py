"""The seam for runs that can be gone on with: what became of each step, kept as soon as it is known."""

from typing import Protocol

from offbook.workflow.result import StepResult


class Checkpoint(Protocol):
    """Keeps the results of steps by their place in the run (`loop[0].step`)."""

    def find(self, path: str) -> StepResult | None:
        """The result of a step that was done in an earlier part of this run."""
        ...

    def save(self, path: str, result: StepResult) -> None:
        """Keep a result for good."""
        ...


class NoCheckpoint:
    """Keeps nothing."""

    def find(self, path: str) -> StepResult | None:
        return None

    def save(self, path: str, result: StepResult) -> None:
        return None


NO_CHECKPOINT = NoCheckpoint()
