"""A rehearsal: a program that is run many times on one recording, each time with other faults, and watched."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from offbook.recording.script import Script
from offbook.wire.answer import Answer
from offbook.wire.log import Outcome
from offbook.wire.replay import Found
from offbook.wire.taken import Taken


class Watcher(Protocol):
    """Is told of each call of a run, on the server's thread."""

    def answered(self, taken: Taken, answer: Answer, outcome: Outcome) -> None:
        """The call has got its answer, which may yet be on its way for long."""
        ...

    def arrived(self, taken: Taken) -> None:
        """An answer that took its time was sent to its end, and the client was there."""
        ...


class NobodyWatches:
    """Is told and does nothing."""

    def answered(self, taken: Taken, answer: Answer, outcome: Outcome) -> None: ...

    def arrived(self, taken: Taken) -> None: ...


NOBODY = NobodyWatches()


class Rehearsal(Struct, frozen=True):
    """One run of many.

    The first writes the `script`, as a strict replay: what was answered to which request. In the later ones equal
    requests get their answers in order, and then the last one again, so that a program may try again or start over;
    what the script does not have is a miss, unless the recording has that very request. A miss is refused, or
    answered with the default response if the run `goes_on`; it is noted either way, and not logged.
    """

    script: Script[Found]
    watcher: Watcher
    is_first: bool = False
    goes_on: bool = False
