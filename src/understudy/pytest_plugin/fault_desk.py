"""Faults that a test asks for as it goes."""

from __future__ import annotations

from understudy.faults import FaultInjector, FaultPlan, Strikes
from understudy.faults.numbering import Numbering
from understudy.messages import Reply, Request
from understudy.providers.provider import Provider


class FaultDesk(Provider):
    """Passes requests on to `provider`, except where a fault was asked for. Calls are counted from the first.

    What it passes on to stays open when this is closed. `strikes` keeps what struck.
    """

    def __init__(self, provider: Provider, plan: FaultPlan, *, strikes: Strikes) -> None:
        self.name = provider.name
        self._provider, self._numbering, self._strikes = provider, Numbering(), strikes
        self.follow(plan)

    def follow(self, plan: FaultPlan) -> None:
        """Let faults strike as this plan says, from now on."""
        self._injector = FaultInjector(self._provider, plan, numbering=self._numbering, strikes=self._strikes)

    async def send(self, request: Request) -> Reply:
        return await self._injector.send(request)
