"""What became of the calls that came to a server: counted, with what was missed and what is left."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from understudy.cli.fault_tally import FaultTally
from understudy.faults import FaultPlan
from understudy.recording.cursor import Unused
from understudy.wire.log import Miss, WireCall
from understudy.wire.serving import WireServer
from understudy.wire.session import WireSession


class Leftovers(Struct, frozen=True):
    """The exchanges that were never served, and the lines of the plan that struck nothing."""

    unused: list[Unused]
    unstruck: list[str]


class WireTally(Struct, frozen=True):
    """What became of a run over the wire. A call that a fault struck counts as `struck`, whatever became of it."""

    calls: list[WireCall]
    misses: list[Miss]
    unused: list[Unused]
    faults: FaultTally

    @property
    def counts(self) -> dict[str, int]:
        """How many calls ended in which way."""
        return Counter("struck" if call.fault else call.outcome for call in self.calls)

    def document(self, *, with_calls: bool) -> dict[str, Any]:
        """All of it for machines. What was asked of models is left out: it may be large, and secret."""
        told: dict[str, Any] = {"counts": {"calls": len(self.calls), **self.counts}}
        if with_calls:
            told["calls"] = [_told(call) for call in self.calls]
        rest = {"misses": self.misses, "unused": self.unused, "faults": self.faults}
        told.update(msgspec.to_builtins(rest))
        return told


def leftovers(server: WireServer, plan: FaultPlan, *, is_folder: bool) -> Leftovers:
    """What a server that still runs has left, of the sessions that were asked.

    Sessions share a recording, and leave what none of them has used; in a folder, each has its own.
    """
    names = dict.fromkeys(call.session for call in server.calls) or [""]
    sessions = [server.session(name) for name in names]
    unstruck = [line for line in plan if all(line in session.unstruck() for session in sessions)]
    return Leftovers(_unused(sessions, is_folder=is_folder), [str(line) for line in unstruck])


def tally_of(server: WireServer, left: Leftovers) -> WireTally:
    """The tally of a server that has ended."""
    struck = [str(planned) for planned in server.fired()]
    return WireTally(server.calls, server.misses, left.unused, FaultTally(struck, left.unstruck))


def _unused(sessions: list[WireSession], *, is_folder: bool) -> list[Unused]:
    first, *others = [session.unused() for session in sessions]
    if is_folder:
        return [left for unused in (first, *others) for left in unused]
    common = set(first).intersection(*others)
    return [left for left in first if left in common]


def _told(call: WireCall) -> dict[str, Any]:
    told: dict[str, Any] = msgspec.to_builtins(replace(call, request=None))
    del told["request"]
    return told
