"""A run's use of its recordings, their unused rest, and the fired faults of its plan."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from offbook.faults.log import FaultLog, ReachedSites
from offbook.faults.site import PlannedFault
from offbook.recording.format.keys import is_function_tool, is_mcp_key, tool_key
from offbook.recording.match.cursor import Cursor, OverusedEntry, UnusedEntry
from offbook.recording.stores.store import StoredExchange


class LoggedCursor(Struct, frozen=True):
    """A cursor in a log. It can serve the exchanges of `recording` whose keys start with `prefix`.

    In a log of models and tools, keys of tools are like `_tools.search`, if their cursor is marked `of_tools`. Without
    `has_functions`, function tools' keys are not its own. `but_for` counts the calls of its tape answered despite a
    harmless difference.
    """

    cursor: Cursor[Any]
    recording: str = ""
    prefix: str = ""
    of_tools: bool = False
    has_functions: bool = True
    but_for: Mapping[tuple[str, ...], int] = {}

    def left(self) -> dict[UnusedEntry, StoredExchange[Any]]:
        """Return the exchanges that it can serve and has not. MCP requests other than tool calls are omitted, because
        clients repeat lists freely.
        """
        return {
            UnusedEntry(stored.key, position, self.recording): stored
            for position, stored in self.cursor.unserved()
            if stored.key.startswith(self.prefix)
            and not is_mcp_key(stored.key)
            and (self.has_functions or not is_function_tool(stored.key))
        }

    def shares(self, entry: UnusedEntry, other: LoggedCursor) -> bool:
        """Return whether it can also serve an entry of another cursor."""
        same_recording = (self.recording, self.of_tools) == (other.recording, other.of_tools)
        return same_recording and entry.key.startswith(self.prefix)


class Log:
    """The log of one or several runs, readable at any time.

    Args:
        cursors: the cursors in recordings. An exchange is used if any cursor that can serve it has.
        faults: the fired faults.
        plan: the lines of the fault plan.
    """

    def __init__(
        self,
        cursors: Iterable[LoggedCursor] = (),
        *,
        faults: Iterable[FaultLog] = (),
        plan: Iterable[PlannedFault] = (),
    ) -> None:
        self.cursors, self.faults, self.plan = tuple(cursors), tuple(faults), tuple(plan)

    @classmethod
    def of(cls, logs: Iterable[Log]) -> Log:
        """Return the sum of logs."""
        logs = tuple(logs)
        return cls(
            (cursor for log in logs for cursor in log.cursors),
            faults=(faults for log in logs for faults in log.faults),
            plan=(line for log in logs for line in log.plan),
        )

    def placed(self, recording: str = "", *, of_tools: bool = False) -> Log:
        """Return the log with the name of its recording, and with keys of tools, for a sum with others."""
        cursors = (replace(each, recording=recording, of_tools=of_tools) for each in self.cursors)
        return Log(cursors, faults=self.faults, plan=self.plan)

    @property
    def recordings(self) -> list[str]:
        """The names of its recordings."""
        return [each.recording for each in self.cursors]

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

    def unserved(self) -> dict[UnusedEntry, StoredExchange[Any]]:
        """Return the exchanges that were never served, in the order of the cursors and of their recordings."""
        left = [(cursor, cursor.left()) for cursor in self.cursors]
        return {
            replace(entry, key=tool_key(entry.key)) if cursor.of_tools else entry: stored
            for cursor, entries in left
            for entry, stored in entries.items()
            if all(entry in others for other, others in left if other.shares(entry, cursor))
        }

    def unused(self) -> list[UnusedEntry]:
        """Name the exchanges that were never served."""
        return list(self.unserved())

    @property
    def but_for(self) -> Counter[str]:
        """The calls that matched although they differ from the recording, counted by the harmless difference."""
        counted = {id(each.but_for): each.but_for for each in self.cursors}
        total = Counter[str]()
        for kinds, count in (item for each in counted.values() for item in each.items()):
            total[" and ".join(kinds)] += count
        return total

    def overused(self) -> list[OverusedEntry]:
        """Return the exchanges that were served more often than recorded.

        There are none if a fault fired, because nothing after a fault is recorded.
        """
        return [] if self.fired else [entry for each in self.cursors for entry in each.cursor.overused()]


class Served(ABC):
    """An object that answers calls from recordings, and logs that."""

    @property
    @abstractmethod
    def log(self) -> Log:
        """Its log so far."""

    def unused(self) -> list[UnusedEntry]:
        """Return the exchanges that were never served, in the order of the recording."""
        return self.log.unused()

    @property
    def but_for(self) -> Counter[str]:
        """The calls that matched although they differ from the recording, counted by the harmless difference."""
        return self.log.but_for

    def overused(self) -> list[OverusedEntry]:
        """Return the exchanges that were served more often than recorded, or none if a fault fired."""
        return self.log.overused()


class Faulted(ABC):
    """An object with the faults of a plan, and a log of fired ones."""

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
