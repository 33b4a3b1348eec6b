"""What a run was served of its recordings, what is left of them, and which planned faults fired."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from offbook.faults.site import PlannedFault, ReachedSites
from offbook.recording.format.keys import is_mcp_key, tool_key
from offbook.recording.match.cursor import OverusedEntry, UnusedEntry
from offbook.session.sources import RecordedModels, Source


class FiredFaults(Protocol):
    """The faults that fired: those of a FaultLog, or of all sessions of a server."""

    @property
    def fired(self) -> Iterable[PlannedFault]: ...

    @property
    def fired_lines(self) -> Iterable[PlannedFault]: ...

    @property
    def reached(self) -> ReachedSites: ...


class LoggedSource(Struct, frozen=True):
    """A source in a log. It can serve the exchanges of `recording` whose keys start with `prefix`.

    In a log of models and tools, keys of tools are like `_tools.search`, if their source is marked `of_tools`.
    """

    source: Source[Any]
    recording: str = ""
    prefix: str = ""
    of_tools: bool = False

    def left(self) -> list[UnusedEntry]:
        """Return what it can serve and has not served. Other requests to MCP servers than tool calls are left out:
        clients ask for lists as they like."""
        return [
            UnusedEntry(each.key, each.position, self.recording)
            for each in self.source.unused()
            if each.key.startswith(self.prefix) and not is_mcp_key(each.key)
        ]

    def shares(self, entry: UnusedEntry, other: LoggedSource) -> bool:
        """Return whether it can serve an entry of another source, too."""
        same_recording = (self.recording, self.of_tools) == (other.recording, other.of_tools)
        return same_recording and entry.key.startswith(self.prefix)


class Log:
    """What happened in a run, or in several: read it at any time.

    Args:
        sources: what answers from recordings. An exchange is used if one of those that can serve it has served it.
        faults: the faults that fired.
        plan: the lines of the fault plan.
    """

    def __init__(
        self,
        sources: Iterable[LoggedSource] = (),
        *,
        faults: Iterable[FiredFaults] = (),
        plan: Iterable[PlannedFault] = (),
    ) -> None:
        self.sources, self.faults, self.plan = tuple(sources), tuple(faults), tuple(plan)

    @classmethod
    def of(cls, logs: Iterable[Log]) -> Log:
        """Return the sum of logs."""
        logs = tuple(logs)
        return cls(
            (source for log in logs for source in log.sources),
            faults=(faults for log in logs for faults in log.faults),
            plan=(line for log in logs for line in log.plan),
        )

    def placed(self, recording: str = "", *, of_tools: bool = False) -> Log:
        """Return the log with the name of its recording, and with keys of tools, for a sum with others."""
        sources = (replace(each, recording=recording, of_tools=of_tools) for each in self.sources)
        return Log(sources, faults=self.faults, plan=self.plan)

    @property
    def recordings(self) -> list[str]:
        """The names of the recordings that its sources read."""
        return [each.recording for each in self.sources]

    @property
    def fired(self) -> list[PlannedFault]:
        """The faults that fired, in order, as lines of a plan."""
        return [planned for faults in self.faults for planned in faults.fired]

    @property
    def reached(self) -> ReachedSites:
        """The sites that calls have reached."""
        reached = ReachedSites()
        for faults in self.faults:
            reached.update(faults.reached)
        return reached

    def unfired(self) -> list[PlannedFault]:
        """Return the lines of the plan that have not fired so far."""
        fired = [line for faults in self.faults for line in faults.fired_lines]
        return [line for line in self.plan if line not in fired]

    def unused(self) -> list[UnusedEntry]:
        """Return the exchanges that were never served, in the order of the sources and of their recordings."""
        left = [(source, dict.fromkeys(source.left())) for source in self.sources]
        unused: dict[UnusedEntry, None] = {}
        for source, entries in left:
            for entry in entries:
                if all(entry in others for other, others in left if other.shares(entry, source)):
                    unused[replace(entry, key=tool_key(entry.key)) if source.of_tools else entry] = None
        return list(unused)

    def overused(self) -> list[OverusedEntry]:
        """Return the exchanges that were served more often than they were recorded.

        There are none if a fault fired: what follows a fault is not recorded.
        """
        models = (each.source for each in self.sources if isinstance(each.source, RecordedModels))
        return [] if self.fired else [entry for source in models for entry in source.overused()]


class Served(ABC):
    """Whatever answers calls from recordings, and has a log of that."""

    @property
    @abstractmethod
    def log(self) -> Log:
        """What it was asked for so far."""

    def unused(self) -> list[UnusedEntry]:
        """Return the exchanges that were never served, in the order of the recording."""
        return self.log.unused()

    def overused(self) -> list[OverusedEntry]:
        """Return the exchanges that were served more often than they were recorded; none if a fault fired."""
        return self.log.overused()


class Faulted(ABC):
    """Whatever has the faults of a plan, and a log of those that fired."""

    @property
    @abstractmethod
    def log(self) -> Log:
        """Its faults so far."""

    @property
    def fired(self) -> list[PlannedFault]:
        """The faults that fired, in order, as lines of a plan."""
        return self.log.fired

    def unfired(self) -> list[PlannedFault]:
        """Return the lines of the plan that have not fired so far: a mistyped step, a call that was never made."""
        return self.log.unfired()
