"""The injector: a provider that fails on purpose, where a plan says so."""

from __future__ import annotations

from understudy.clock import SYSTEM_CLOCK, Clock
from understudy.errors import RecordingMismatchError
from understudy.events import NULL_SINK, FaultFired, Sink
from understudy.faults.catalog import AnyFault
from understudy.faults.fault import StruckCall
from understudy.faults.numbering import Numbering
from understudy.faults.plan import FaultPlan
from understudy.faults.site import PlannedFault, Site
from understudy.messages import Reply, Request
from understudy.providers.provider import Provider


class FaultInjector(Provider):
    """Passes requests on to `provider`, except where the plan has a fault for them.

    `fired` lists what struck, as lines of a plan: `FaultPlan(injector.fired)` strikes there again. `unstruck()`
    lists what did not. Injectors that share a `numbering` count calls together.
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
        self._struck: list[PlannedFault] = []
        self._provider, self._plan, self._sink, self._clock = provider, plan, sink, clock
        self._numbering = numbering or Numbering()

    async def send(self, request: Request) -> Reply:
        site = self._numbering.site(request)
        fault = self._plan.fault_at(site)
        if fault is None:
            return await self._clean(request)
        self._note(site, fault)
        self._sink.emit(
            FaultFired(request.step_id, request.model, fault.type, request.workflow, site.call, site.attempt)
        )
        return await fault.strike(StruckCall(request, lambda: self._clean(request), self._clock, self.name))

    def unstruck(self) -> list[PlannedFault]:
        """The lines of the plan that have struck nothing so far: a mistyped step, a call that never came."""
        return [planned for planned in self._plan if planned not in self._struck]

    def _note(self, site: Site, fault: AnyFault) -> None:
        self.fired.append(PlannedFault(site.named(), fault))
        planned = self._plan.line_at(site)
        if planned is not None and planned not in self._struck:
            self._struck.append(planned)

    async def _clean(self, request: Request) -> Reply:
        """The reply without a fault. A replay that has none is told what struck before."""
        try:
            return await self._provider.send(request)
        except RecordingMismatchError as error:
            if not self.fired:
                raise
            raise error.but(struck=[str(planned) for planned in self.fired]) from None

    async def close(self) -> None:
        await self._provider.close()
