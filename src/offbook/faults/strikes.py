"""What has struck so far."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from offbook.errors import RecordingMismatchError
from offbook.faults.site import PlannedFault


class Strikes:
    """What struck, in order: `fired` has it as lines of a plan. Injectors that share one tell of each other's."""

    def __init__(self) -> None:
        self.fired: list[PlannedFault] = []
        self._lines: list[PlannedFault] = []

    def note(self, fired: PlannedFault, line: PlannedFault | None) -> None:
        """Keep what struck at a site, by which line of a plan if by one."""
        self.fired.append(fired)
        if line is not None and line not in self._lines:
            self._lines.append(line)

    def missing(self, lines: Iterable[PlannedFault]) -> list[PlannedFault]:
        """Those of the lines that have struck nothing so far."""
        return [line for line in lines if line not in self._lines]

    @contextmanager
    def told(self) -> Iterator[None]:
        """Let a replay that has no answer say what struck before."""
        try:
            yield
        except RecordingMismatchError as error:
            if not self.fired:
                raise
            raise error.but(struck=[str(planned) for planned in self.fired]) from None
