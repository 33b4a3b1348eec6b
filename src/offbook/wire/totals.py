"""What became of the calls of all sessions, counted: it outlasts them."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable

from msgspec import Struct

from offbook.faults import PlannedFault
from offbook.wire.log import Outcome
from offbook.wire.session import MAX_CALLS, WireSession
from offbook.wire.stock import Stock

TOLD_SESSIONS = 2
"""How many sessions of a recording are remembered by name: enough to know whether there was but one."""


class Use(Struct, frozen=True):
    """What sessions have made of one recording: their names, as far as remembered, and the ids of what they used."""

    sessions: set[str]
    ids: set[int]


class Totals:
    """Counts over sessions, of those that were asked something.

    `calls` counts calls, `outcomes` in which way their tries have ended, and `failures` how real APIs failed that were
    recorded, by what is told of it. `fired` are the latest faults that struck, `struck` the lines of plans that did.
    """

    def __init__(self, sessions: Iterable[WireSession] = ()) -> None:
        self.calls = 0
        self.outcomes: Counter[Outcome] = Counter()
        self.failures: Counter[str] = Counter()
        self.fired: deque[PlannedFault] = deque(maxlen=MAX_CALLS)
        self.struck: list[PlannedFault] = []
        self.uses: dict[Stock, Use] = {}
        for session in sessions:
            self.add(session)

    @property
    def tries(self) -> int:
        """How often something was asked, further tries of calls included."""
        return self.outcomes.total()

    def add(self, session: WireSession) -> None:
        """Count a session, which is counted once."""
        if not session.outcomes:
            return
        self.calls += session.call_count
        self.outcomes.update(session.outcomes)
        self.failures.update(session.failures)
        self.fired.extend(session.fired)
        self.struck += [line for line in session.struck if line not in self.struck]
        if session.replay is not None:
            use = self.uses.setdefault(session.replay.stock, Use(set(), set()))
            use.ids.update(session.replay.used_ids)
            if len(use.sessions) < TOLD_SESSIONS:
                use.sessions.add(session.name)

    def plus(self, sessions: Iterable[WireSession]) -> Totals:
        """These and further sessions."""
        totals = Totals(sessions)
        totals.calls += self.calls
        totals.outcomes.update(self.outcomes)
        totals.failures.update(self.failures)
        totals.fired.extendleft(reversed(self.fired))
        totals.struck += [line for line in self.struck if line not in totals.struck]
        for stock, use in self.uses.items():
            known = totals.uses.setdefault(stock, Use(set(), set()))
            known.ids.update(use.ids)
            known.sessions.update(use.sessions)
        return totals
