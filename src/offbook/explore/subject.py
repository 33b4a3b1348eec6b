"""What is explored: something that can be run again and again, each time with other faults."""

from __future__ import annotations

from typing import Protocol

from offbook.explore.run import Run
from offbook.faults import FaultPlan


class Subject(Protocol):
    """Something that can be run. The first run is without a fault: the clean one."""

    name: str

    def run(self, plan: FaultPlan) -> Run:
        """Run it from its beginning, isolated from other runs. Never raises what the run itself raises."""
        ...
