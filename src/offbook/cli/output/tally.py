"""Which planned faults fired in a run and which did not, and which exchanges a replay left unused."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING

from msgspec import Struct

from offbook.faults import PlannedFault
from offbook.recording.match.cursor import UnusedEntry
from offbook.text import printable

if TYPE_CHECKING:
    from offbook.pipeline import FaultOutcome


_LOOP_ROUND = re.compile(r"(?<![^.])[^.\[\]]+\[\d+\]\.")


class FaultTally(Struct, frozen=True):
    """The faults that fired, and the planned faults that did not, each as a line of a plan."""

    fired: list[str]
    unfired: list[str]


def tally_faults(outcome: FaultOutcome, *, completed_before: Collection[str]) -> FaultTally:
    """Return the tally of a run. A fault that may have fired in a step of an earlier run does not count as unfired."""
    steps = {_LOOP_ROUND.sub("", path) for path in completed_before}
    missed = [line for line in outcome.unfired() if not _may_be_among(line, steps)]
    return FaultTally([str(fired) for fired in outcome.fired()], [str(line) for line in missed])


def _may_be_among(line: PlannedFault, steps: Collection[str]) -> bool:
    return bool(steps) if line.at.step_id is None else line.at.step_id in steps


SHOWN_UNUSED = 5


def describe_unused(unused: list[UnusedEntry]) -> str:
    """Return how many exchanges a replay did not use, and the first of them."""
    names = [f"{printable(left.key)}[{left.position}]" for left in unused[:SHOWN_UNUSED]]
    more = ", …" if len(unused) > SHOWN_UNUSED else ""
    said = "exchange of the recording was" if len(unused) == 1 else "exchanges of the recording were"
    return f"{len(unused):,} {said} not used: {', '.join(names)}{more}"
