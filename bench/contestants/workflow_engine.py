"""The seam of the workflow engines: a graph of steps whose model answers from a recording, and whoever runs it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Literal

from msgspec import Struct

from bench.workload import MODEL, call_at
from offbook.messages import JsonObject

NAME = "letters"
TOPIC = "a rear derailleur that has not come"
UNLIMITED = 1_000_000


class Shape(Struct, frozen=True):
    """A workflow: so many steps that depend on nothing, or each on the one before it, whose answer it asks about."""

    kind: Literal["fan-out", "chain"]
    steps: int

    def __str__(self) -> str:
        return f"{self.kind} of {self.steps:,}"

    @property
    def declared(self) -> JsonObject:
        """The workflow, as a file would declare it to any of the engines."""
        steps = [self._step(index) for index in range(self.steps)]
        return {"name": NAME, "config": {"model": MODEL}, "state": {"topic": TOPIC}, "steps": steps}

    @property
    def prompts(self) -> list[str]:
        """What each step asks once its placeholder is filled in."""
        read = [TOPIC, *self.answers]
        return [_prompt(index, read[index if self.kind == "chain" else 0]) for index in range(self.steps)]

    @property
    def answers(self) -> list[str]:
        """What each step is answered."""
        return [call_at(index).answer for index in range(self.steps)]

    def _step(self, index: int) -> JsonObject:
        follows = self.kind == "chain" and index > 0
        read = f"r{index - 1}" if follows else "topic"
        return {
            "id": f"s{index}",
            "type": "llm_call",
            "prompt": _prompt(index, f"{{state.{read}}}"),
            "output": f"r{index}",
            "depends_on": [f"s{index - 1}"] if follows else [],
        }


def _prompt(index: int, read: str) -> str:
    return f"Write letter {index} to the customer. It is about this: {read}"


class EngineContestant(ABC):
    """Runs one workflow on a model that answers from a recording. `most_steps` keeps slow ones within reason."""

    name: str
    most_steps = UNLIMITED

    def __init__(self, shape: Shape) -> None:
        self._declared = shape.declared

    @abstractmethod
    def open(self) -> None:
        """Open the recording and put a gateway before it, anew; not timed."""

    @abstractmethod
    def make(self) -> Any:
        """An engine for one run, from what a file declares; timed by itself."""

    @abstractmethod
    async def run(self, engine: Any) -> Any:
        """Run the workflow, and give back what became of it; this is timed."""

    @abstractmethod
    async def call(self) -> None:
        """Ask through the gateway what the steps ask, one after the other; timed by itself."""

    @abstractmethod
    def outputs(self, result: Any) -> list[str]:
        """What the steps of a run gave, in their order; not timed."""
