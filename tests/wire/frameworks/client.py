"""What every framework can do with a model, as the tests ask it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from typing import ClassVar

from pydantic import BaseModel

PATIENCE_S = 30.0


class Report(BaseModel):
    """The weather of a city."""

    city: str
    celsius: int


class Client(ABC):
    """A framework with one vendor's model, which it finds at a `url`.

    `report_script` names the recording that answers what the framework asks for a Report. `never_ends` has the faults
    of a stream that keep it busy for ever. Some frameworks make one of tool calls that are streamed together.
    """

    title: ClassVar[str]
    never_ends: ClassVar[tuple[str, ...]] = ()
    report_script: ClassVar[str] = "report"
    merges_streamed_calls: ClassVar[bool] = False

    @abstractmethod
    async def ask(self, url: str, *, timeout_s: float = PATIENCE_S) -> str:
        """The answer to a question."""

    @abstractmethod
    def stream(self, url: str, *, timeout_s: float = PATIENCE_S) -> AsyncIterator[str]:
        """The same in pieces."""

    @abstractmethod
    async def use_tools(self, url: str, weather: Callable[[str], str], *, is_streamed: bool) -> str:
        """The answer to a question for which the model may ask `weather` of a city."""

    @abstractmethod
    async def report(self, url: str) -> Report:
        """An answer with a structure."""
