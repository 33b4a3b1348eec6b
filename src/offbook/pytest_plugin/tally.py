"""What a test did with its recording, counted."""

from __future__ import annotations

from typing import TypeAlias

import msgspec
from msgspec import Struct

from offbook.events import CallRecorded, Event, ReplayMissed, ReplayServed

AnsweredCall: TypeAlias = ReplayServed | CallRecorded


class Tally(Struct, frozen=True, omit_defaults=True):
    """Calls of models and tools: served from a recording, recorded live, and missed by the recording.

    `dropped` were recorded by a test that failed, and not kept. `unused` names the entries of the recording that were
    left.
    """

    recording: str = ""
    served: int = 0
    recorded: int = 0
    missed: int = 0
    dropped: int = 0
    unused: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, object]:
        """The tally in plain values, as a report carries it."""
        told: dict[str, object] = msgspec.to_builtins(self)
        return told


class CallLog:
    """A sink that keeps the calls of a test."""

    def __init__(self) -> None:
        self.calls: list[AnsweredCall] = []
        self.missed = 0

    def emit(self, event: Event) -> None:
        if isinstance(event, ReplayServed | CallRecorded):
            self.calls.append(event)
        if isinstance(event, ReplayMissed) or (isinstance(event, ReplayServed) and event.matched_by == "default"):
            self.missed += 1

    @property
    def served(self) -> int:
        """How many calls a recording answered."""
        return sum(isinstance(call, ReplayServed) and call.matched_by != "default" for call in self.calls)
