"""The injector: a provider that fails on purpose, where a plan says so."""

from __future__ import annotations

from understudy.clock import SYSTEM_CLOCK, Clock
from understudy.events import NULL_SINK, FaultFired, Sink
from understudy.faults.fault import StruckCall
from understudy.faults.numbering import Numbering
from understudy.faults.plan import FaultPlan
from understudy.faults.site import PlannedFault
from understudy.messages import Reply, Request
from understudy.providers.provider import Provider


class FaultInjector(Provider):
    """Passes requests on to `provider`, except where the plan has a fault for them.

    `fired` lists what struck, as lines of a plan: `FaultPlan(injector.fired)` strikes there again. Injectors
    that share a `numbering` count calls together.
    """

    def __init__(
        self,
        provider: Provider,
        plan: FaultPlan,
        *,
        numbering: Numbering | None = None,
        sink: Sink = NULL_SINK,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.name = provider.name
        self.fired: list[PlannedFault] = []
        self._provider, self._plan, self._sink, self._clock = provider, plan, sink, clock
        self._numbering = numbering or Numbering()

    async def send(self, request: Request) -> Reply:
        site = self._numbering.site(request)
        fault = self._plan.fault_at(site)
        if fault is None:
            return await self._provider.send(request)
        self.fired.append(PlannedFault(site.named(), fault))
        self._sink.emit(
            FaultFired(request.step_id, request.model, fault.type, request.workflow, site.call, site.attempt)
        )
        return await fault.strike(StruckCall(request, lambda: self._provider.send(request), self._clock, self.name))

    async def close(self) -> None:
        await self._provider.close()
