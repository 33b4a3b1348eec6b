"""Counting the calls of a run: which call, which try of it, and what is planned for that."""

from __future__ import annotations

from msgspec.structs import replace

from offbook.faults import AnyFault, FaultPlan, PlannedFault
from offbook.faults.numbering import Numbering
from offbook.faults.site import Site
from offbook.messages import Request
from offbook.wire.asked import Asked
from offbook.wire.http_call import HttpCall
from offbook.wire.taken import Taken

NO_FAULTS = FaultPlan()
"""The plan of who will never plan anything: calls are then counted roughly, as doing it well takes longer than
answering them."""

STEP_HEADER = "x-offbook-step"
_STRUCK = ("generate", "embed")


class CallCount:
    """Numbers calls as they come, and says which fault of a plan strikes them.

    Faults strike calls of models, embeddings too. A client that does not tell its tries is known to try again when it
    repeats a request whose last answer had failed. One who `counts_all` counts the calls of models even where nothing
    is planned, and takes a repeated request for a further try whatever its client tells: an agent may try again what
    its SDK has given up.
    """

    def __init__(self, plan: FaultPlan, *, counts_all: bool = False) -> None:
        self.fired: list[PlannedFault] = []
        self.total = 0
        self._calls = 0
        self._counts_all = counts_all
        self.follow(plan)
        self._struck: list[PlannedFault] = []
        self._numbering = Numbering()
        self._failed: dict[str, int] = {}

    def take(self, call: HttpCall, asked: Asked) -> Taken:
        """The call with its place among the others."""
        self.total += 1
        attempt = self._attempt(call, asked)
        step_id = call.headers.get(STEP_HEADER) or None
        if asked.route.operation not in _STRUCK:
            return Taken(asked, self.total, attempt, step_id)
        if not self._is_counting:
            self._calls += attempt == 1 or not self._calls
            return Taken(asked, self.total, attempt, step_id, call=self._calls)
        site = self._site(asked, attempt, step_id)
        return Taken(asked, self.total, attempt, step_id, self._fault_at(site), site, site.overall)

    def note(self, taken: Taken, *, failed: bool) -> None:
        """Remember how the call's answer ended."""
        if failed:
            self._failed[taken.asked.request_hash] = taken.attempt
        elif self._failed:
            self._failed.pop(taken.asked.request_hash, None)

    def follow(self, plan: FaultPlan) -> None:
        """Let faults strike as this plan says, from now on."""
        self._plan = plan
        self._is_counting = self._counts_all or plan is not NO_FAULTS

    @property
    def struck(self) -> list[PlannedFault]:
        """The lines of the plan that have struck so far."""
        return self._struck

    def unstruck(self) -> list[PlannedFault]:
        """The lines of the plan that have struck nothing so far."""
        return [planned for planned in self._plan if planned not in self._struck]

    def _attempt(self, call: HttpCall, asked: Asked) -> int:
        counted = self._failed.get(asked.request_hash, 0) + 1
        told = call.attempt or counted
        return max(told, counted) if self._counts_all else told

    def _site(self, asked: Asked, attempt: int, step_id: str | None) -> Site:
        request = asked.request or Request(({"role": "user", "content": asked.request_hash},), asked.model)
        return self._numbering.site(replace(request, attempt=attempt, step_id=step_id))

    def _fault_at(self, site: Site) -> AnyFault | None:
        fault = self._plan.fault_at(site)
        if fault is not None:
            self.fired.append(PlannedFault(site.named(), fault))
            planned = self._plan.line_at(site)
            if planned is not None and planned not in self._struck:
                self._struck.append(planned)
        return fault
