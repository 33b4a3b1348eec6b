"""The injector: a provider that fails on purpose, where a plan says so."""

from __future__ import annotations

from offbook.clock import SYSTEM_CLOCK, Clock
from offbook.events import NULL_SINK, FaultFired, Sink
from offbook.faults.fault import StruckCall
from offbook.faults.numbering import Numbering
from offbook.faults.plan import FaultPlan
from offbook.faults.site import PlannedFault
from offbook.faults.strikes import Strikes
from offbook.messages import Reply, Request
from offbook.providers.provider import Provider


class FaultInjector(Provider):
    """Passes requests on to `provider`, except where the plan has a fault for them.

    `fired` lists what struck, as lines of a plan: `FaultPlan(injector.fired)` strikes there again. `unstruck()`
    lists what did not. Injectors that share a `numbering` count calls together, and those that share `strikes`
    tell of each other's.
    """

    def __init__(
        self,
        provider: Provider,
        plan: FaultPlan,
        *,
        numbering: Numbering | None = None,
        strikes: Strikes | None = None,
        sink: Sink = NULL_SINK,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.name = provider.name
        self._provider, self._plan, self._sink, self._clock = provider, plan, sink, clock
        self._numbering, self._strikes = numbering or Numbering(), strikes or Strikes()

    @property
    def fired(self) -> list[PlannedFault]:
        """What struck, in order."""
        return self._strikes.fired

    async def send(self, request: Request) -> Reply:
        site = self._numbering.site(request)
        fault = self._plan.fault_at(site)
        if fault is None:
            return await self._clean(request)
        self._strikes.note(PlannedFault(site.named(), fault), self._plan.line_at(site))
        self._sink.emit(
            FaultFired(request.step_id, request.model, fault.type, request.workflow, site.call, site.attempt)
        )
        return await fault.strike(StruckCall(request, lambda: self._clean(request), self._clock, self.name))

    def unstruck(self) -> list[PlannedFault]:
        """The lines about models that have struck nothing so far: a mistyped step, a call that never came."""
        return self._strikes.missing(line for line in self._plan if line.at.tool is None)

    async def _clean(self, request: Request) -> Reply:
        """The reply without a fault. A replay that has none says what struck before."""
        with self._strikes.told():
            return await self._provider.send(request)

    async def close(self) -> None:
        await self._provider.close()
