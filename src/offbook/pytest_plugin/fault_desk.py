"""Faults that a test asks for as it goes."""

from __future__ import annotations

from offbook.errors import RecordingMismatchError
from offbook.faults import FaultInjector, FaultPlan, Strikes
from offbook.faults.numbering import Numbering
from offbook.messages import Reply, Request
from offbook.providers.provider import Provider


class FaultDesk(Provider):
    """Passes requests on to `provider`, except where a fault was asked for. Calls are counted from the first.

    What it passes on to stays open when this is closed. `strikes` keeps what struck. What a replay has no answer for
    though nothing struck before says `hint`.
    """

    def __init__(self, provider: Provider, plan: FaultPlan, *, strikes: Strikes, hint: str) -> None:
        self.name = provider.name
        self._provider, self._numbering, self._strikes, self._hint = provider, Numbering(), strikes, hint
        self.follow(plan)

    def follow(self, plan: FaultPlan) -> None:
        """Let faults strike as this plan says, from now on."""
        self._injector = FaultInjector(self._provider, plan, numbering=self._numbering, strikes=self._strikes)

    async def send(self, request: Request) -> Reply:
        try:
            return await self._injector.send(request)
        except RecordingMismatchError as error:
            raise error.but(hint="" if error.struck else self._hint) from None
