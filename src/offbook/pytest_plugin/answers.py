"""What answers the calls of a test: a recording, or the real thing with a recorder around it."""

from __future__ import annotations

from abc import ABC, abstractmethod

from offbook.providers.provider import Provider
from offbook.pytest_plugin.plan import RecordingPlan
from offbook.pytest_plugin.tally import CallLog, Tally
from offbook.pytest_plugin.wires import Wires
from offbook.recording.cursor import Unused
from offbook.recording.open_toolbox import OpenToolbox


class Answers(ABC):
    """What answers a test, opened as far as it is asked for. `log` has the calls of models so far."""

    is_live: bool

    def __init__(self, plan: RecordingPlan) -> None:
        self.plan, self.log = plan, CallLog()

    @property
    @abstractmethod
    def provider(self) -> Provider:
        """Answers the calls of models."""

    @property
    @abstractmethod
    def toolbox(self) -> OpenToolbox:
        """Wraps tools; all their calls count together."""

    @property
    @abstractmethod
    def wires(self) -> Wires:
        """Stands in behind HTTP clients."""

    def unused(self) -> list[Unused]:
        """The entries of a replayed recording that were not served; of tools, under keys like `_tools.search`."""
        return []

    async def disconnect(self) -> None:
        """Close connections made on the running loop."""

    @abstractmethod
    def close(self, *, passed: bool) -> Tally:
        """Let go of everything, and tell what was done. What was recorded is kept if the test has passed."""
