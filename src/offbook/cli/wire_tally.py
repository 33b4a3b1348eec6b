"""What became of the calls that came to a server: counted, with what was missed and what is left."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from offbook.cli.fault_tally import FaultTally
from offbook.faults import FaultPlan
from offbook.wire.leftover import Leftover
from offbook.wire.log import Miss, WireCall
from offbook.wire.serving import WireServer
from offbook.wire.totals import Totals


class WireTally(Struct, frozen=True):
    """What became of a run over the wire. `totals` count the sessions that are gone, too; calls and misses do not."""

    totals: Totals
    calls: list[WireCall]
    misses: list[Miss]
    unused: list[Leftover]
    faults: FaultTally

    @property
    def failed(self) -> int:
        """How often a real API failed that was recorded."""
        return self.totals.failures.total()

    @property
    def counts(self) -> dict[str, int]:
        """How many calls there were, in how many tries, and how many of those ended in which way."""
        counts = {"calls": self.totals.calls, "tries": self.totals.tries}
        counts |= self.totals.outcomes.items()
        return counts | {"failed": self.failed} if self.failed else counts

    def document(self, *, with_calls: bool) -> dict[str, Any]:
        """All of it for machines. What was asked of models is left out: it may be large, and secret."""
        told: dict[str, Any] = {"counts": self.counts}
        if with_calls:
            told["calls"] = [_told(call) for call in self.calls]
        rest = {"misses": self.misses, "unused": self.unused, "faults": self.faults}
        told.update(msgspec.to_builtins(rest))
        return told


def tally_of(server: WireServer, left: list[Leftover], plan: FaultPlan) -> WireTally:
    """The tally of a server that has ended, and had `left` before that. `plan` is the one that it was started with."""
    totals = server.totals()
    struck, unstruck = map(str, totals.fired), [str(line) for line in plan if line not in totals.struck]
    return WireTally(totals, server.calls, server.misses, left, FaultTally(list(struck), unstruck))


def _told(call: WireCall) -> dict[str, Any]:
    told: dict[str, Any] = msgspec.to_builtins(replace(call, request=None))
    del told["request"]
    return told
