"""The seam of the agent loops: a model that answers from a script, one tool that does little, and whoever runs both."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

PROMPT = "You are a reader. Fetch every page, one after the other, then submit."
ASKED = "Read the book."
RESULT = "The end."
UNLIMITED = 1_000_000


class Shelf:
    """The tool: pages to fetch, and how many of them were."""

    def __init__(self) -> None:
        self.fetched = 0

    async def fetch(self, page: int) -> str:
        """Fetch a page of the book."""
        self.fetched += 1
        return f"This is page {page}."


async def submit(text: str) -> str:
    """Hand in the result, which ends the run."""
    return text


class AgentLoop(ABC):
    """Runs an agent whose model fetches page after page, and ends at the last step.

    `repeats` keeps slow ones within reason; they are spread over all rounds.
    """

    name: str
    repeats = UNLIMITED

    def __init__(self) -> None:
        self.shelf = Shelf()

    @abstractmethod
    async def script(self, steps: int) -> Any:
        """What the model answers in a run of so many steps, in the form of this loop; for one run, and not timed."""

    @abstractmethod
    async def run(self, script: Any) -> str:
        """Run the agent once, and give back its result; this is timed."""
