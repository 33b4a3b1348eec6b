"""What the sessions of a stage have done, for who looks at a server or a stand-in from outside."""

from __future__ import annotations

from collections.abc import Iterable

from offbook.faults import FaultPlan, PlannedFault
from offbook.recording.cursor import Unused
from offbook.wire.leftover import Leftover
from offbook.wire.log import Miss, WireCall
from offbook.wire.rehearsal import Rehearsal
from offbook.wire.session import WireSession
from offbook.wire.stage import Stage, plan_of
from offbook.wire.totals import Totals


class StageLog:
    """The calls of a stage, and what became of them. Calls that name no session belong to the one without a name."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    @property
    def calls(self) -> list[WireCall]:
        """The calls of all sessions, in the order in which they were answered in each."""
        return [call for session in self._stage.sessions for call in session.calls.copy()]

    @property
    def misses(self) -> list[Miss]:
        """The calls that the recording has no answer for."""
        return [miss for session in self._stage.sessions for miss in session.misses.copy()]

    @property
    def sessions(self) -> list[WireSession]:
        """The sessions that there are."""
        return list(self._stage.sessions)

    def unused(self) -> list[Unused]:
        """The entries of the recording that the session without a name was never served."""
        return self.session("").unused()

    def fired(self) -> list[PlannedFault]:
        """The faults that struck, of all sessions."""
        return [planned for session in self._stage.sessions for planned in session.fired]

    def totals(self) -> Totals:
        """What became of the calls of all sessions, also of those that are gone."""
        return self._stage.sessions.past.plus(self._stage.sessions)

    def leftovers(self) -> list[Leftover]:
        """The exchanges that no session was served, of the recordings that answered one. To be asked while it runs."""
        return self._stage.leftovers(self.totals())

    def unstruck(self) -> list[PlannedFault]:
        """The faults planned for the session without a name that have struck nothing so far."""
        return self.session("").unstruck()

    def session(self, name: str) -> WireSession:
        """The session of that name, made if there is none."""
        return self._stage.sessions.named(name)

    def start_session(
        self,
        name: str,
        *,
        faults: Iterable[str | PlannedFault] | FaultPlan = (),
        rehearsal: Rehearsal | None = None,
    ) -> WireSession:
        """A new session, with faults of its own, in the place of one of that name that may be there."""
        return self._stage.start(name, plan_of(faults), rehearsal)

    def end_session(self, name: str) -> None:
        """Forget a session, if there is one of that name."""
        self._stage.sessions.forget(name)

    def follow(self, plan: FaultPlan) -> None:
        """Let faults strike as this plan says, in all sessions from now on."""
        self._stage.sessions.follow(plan)
