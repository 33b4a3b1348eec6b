"""Which planned faults struck a run, and which did not."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING

from msgspec import Struct

from offbook.faults import PlannedFault

if TYPE_CHECKING:
    from offbook.session import Struck

_ROUND = re.compile(r"(?<![^.])[^.\[\]]+\[\d+\]\.")


class FaultTally(Struct, frozen=True):
    """The faults that struck, and the lines of the plan that struck nothing, as lines of a plan."""

    struck: list[str]
    unstruck: list[str]


def tally(struck: Struck, *, kept: Collection[str]) -> FaultTally:
    """The tally of a run. A fault that may have struck the steps that were `kept` from before is not missed."""
    steps = {_ROUND.sub("", path) for path in kept}
    missed = [line for line in struck.unstruck() if not _may_be_among(line, steps)]
    return FaultTally([str(fired) for fired in struck.fired()], [str(line) for line in missed])


def _may_be_among(line: PlannedFault, steps: Collection[str]) -> bool:
    return bool(steps) if line.at.step_id is None else line.at.step_id in steps
