"""The injector: a provider that fails on purpose, where a plan says so."""

from __future__ import annotations

from understudy.clock import SYSTEM_CLOCK, Clock
from understudy.events import NULL_SINK, FaultFired, Sink
from understudy.faults.fault import StruckCall
from understudy.faults.plan import At, FaultPlan, PlannedFault, Site
from understudy.messages import Reply, Request
from understudy.providers.provider import Provider


class FaultInjector(Provider):
    """Passes requests on to `provider`, except where the plan has a fault for them.

    `fired` lists what struck, as lines of a plan: `FaultPlan(injector.fired)` strikes there again.
    """

    def __init__(
        self, provider: Provider, plan: FaultPlan, *, sink: Sink = NULL_SINK, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self.name = provider.name
        self.fired: list[PlannedFault] = []
        self._provider, self._plan, self._sink, self._clock = provider, plan, sink, clock
        self._counts: dict[tuple[str, str | None], int] = {}
        self._overall: dict[tuple[str, str | None, int], int] = {}

    async def send(self, request: Request) -> Reply:
        site = self._site(request)
        fault = self._plan.fault_at(site)
        if fault is None:
            return await self._provider.send(request)
        self.fired.append(PlannedFault(At(step_id=site.step_id, call=site.number, attempt=site.attempt), fault))
        self._sink.emit(
            FaultFired(request.step_id, request.model, fault.type, request.workflow, site.call, site.attempt)
        )
        return await fault.strike(StruckCall(request, lambda: self._provider.send(request), self._clock, self.name))

    async def close(self) -> None:
        await self._provider.close()

    def _site(self, request: Request) -> Site:
        """Where the request stands, by the numbers it carries or else by counting."""
        step = (request.workflow, request.step_id)
        call = request.call or self._counted(step, request.attempt)
        overall = self._overall.setdefault((*step, call), len(self._overall) + 1)
        return Site(request.step_id, call, overall, request.attempt)

    def _counted(self, step: tuple[str, str | None], attempt: int) -> int:
        self._counts[step] = self._counts.get(step, 0) + (attempt == 1)
        return max(self._counts[step], 1)
