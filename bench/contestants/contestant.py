"""The seams of the benchmark: something that replays, and something that records."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.workload import Call

MOST_CALLS = 600
UNLIMITED = 1_000_000


class Replayer(ABC):
    """Answers calls from a recording.

    `repeats`, `calls_a_repeat` and `largest` keep slow ones within reason. One that is `in_order` does not look
    at what is asked and must be asked in the order of the recording. A floor gives no real answers.
    """

    name: str
    repeats = UNLIMITED
    calls_a_repeat = MOST_CALLS
    largest = UNLIMITED
    in_order = False
    is_floor = False

    @abstractmethod
    def open(self) -> None:
        """Open the recording anew; nothing of it has been served."""

    def prepare(self, call: Call) -> Any:
        """The call in the form that `replay` takes; not timed."""
        return call

    @abstractmethod
    async def answer(self, prepared: Any) -> str:
        """The text answered to one call."""

    @abstractmethod
    async def replay(self, prepared: Sequence[Any]) -> None:
        """Have every call answered; this is timed."""

    async def close(self) -> None:
        """Let go of the recording."""


class Recorder(ABC):
    """Records calls into a new recording. `repeats` and `largest` keep slow ones within reason.

    One that is `sampled` takes so long that its mean over a recording is taken from calls at a few sizes of it.
    """

    name: str
    repeats = UNLIMITED
    largest = UNLIMITED
    sampled = False

    @abstractmethod
    def open(self, folder: Path, calls: Sequence[Call], *, existing: int = 0) -> None:
        """Start a recording in an empty folder, which is to take `calls`; `existing` entries are there already."""

    @abstractmethod
    async def record(self, calls: Sequence[Call]) -> None:
        """Make every call and keep it; this is timed."""

    async def close(self) -> None:
        """Bring the recording into its final form; this is timed by itself."""

    def end(self) -> None:
        """Let go of what was needed for recording; not timed."""
