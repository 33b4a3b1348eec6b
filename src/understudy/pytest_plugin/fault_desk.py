"""Faults that a test asks for as it goes."""

from __future__ import annotations

from collections.abc import Iterable

from understudy.faults import FaultInjector, FaultPlan, PlannedFault
from understudy.faults.numbering import Numbering
from understudy.messages import Reply, Request
from understudy.providers.provider import Provider


class FaultDesk(Provider):
    """Passes requests on to `provider`, except where a fault was asked for. Calls are counted from the first.

    What it passes on to stays open when this is closed.
    """

    def __init__(self, provider: Provider) -> None:
        self.name = provider.name
        self._provider, self._numbering = provider, Numbering()
        self._planned: tuple[PlannedFault, ...] = ()
        self._injector = FaultInjector(provider, FaultPlan(), numbering=self._numbering)

    def add(self, faults: Iterable[PlannedFault]) -> None:
        """Let these strike too, from now on; those asked for first go first."""
        self._planned = (*self._planned, *faults)
        self._injector = FaultInjector(self._provider, FaultPlan(self._planned), numbering=self._numbering)

    async def send(self, request: Request) -> Reply:
        return await self._injector.send(request)
