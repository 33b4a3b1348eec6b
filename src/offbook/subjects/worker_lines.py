"""What is said between a crew and its workers, a line of JSON each."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from offbook.explore.run import Run
from offbook.faults import PlannedFault
from offbook.subjects.described import AnyDescribed
from offbook.subjects.terms import Terms


class Part(Struct, frozen=True):
    """The first line to a worker: what it is to run."""

    subject: AnyDescribed
    terms: Terms


class Ready(Struct, frozen=True, tag="ready"):
    """The worker has run its subject without a fault, and waits for cases."""


class Refused(Struct, frozen=True, tag="refused"):
    """The worker cannot run its subject, or a case of it: bad input."""

    reason: str
    source: str = ""
    place: str = ""
    hint: str = ""


class Done(Struct, frozen=True, tag="done"):
    """What a run with the faults of a case did."""

    run: Run


Said: TypeAlias = Ready | Refused | Done
Lines: TypeAlias = tuple[PlannedFault, ...]
