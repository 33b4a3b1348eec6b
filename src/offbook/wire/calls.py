"""The calls of a session: their numbers and attempts, the faults planned for them, and their outcomes."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from offbook.call_numbers import CallNumbers, Site
from offbook.errors import MismatchKind
from offbook.faults import AnyFault, At, FaultPlan, PlannedFault
from offbook.messages import Request
from offbook.wire.request import HttpRequest, ParsedRequest


class CallAttempt(Struct, frozen=True, gc=False):
    """A try of a call of a run. `number` counts all that is asked; `fault` is to strike it.

    `call` counts the run's calls of models, and is 0 for others; `attempt` counts the tries of one. `site` is its place
    among the calls of models, where faults may strike.
    """

    asked: ParsedRequest
    number: int
    attempt: int
    step_id: str | None = None
    fault: AnyFault | None = None
    site: Site | None = None
    call: int = 0


NO_FAULTS = FaultPlan()
"""The plan of who will never plan anything: calls are then counted roughly, as doing it well takes longer than
answering them."""

STEP_HEADER = "x-offbook-step"
_FAULTED_OPERATIONS = ("generate", "embed")


class CallCounter:
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
        self._fired_lines: list[PlannedFault] = []
        self._call_numbers = CallNumbers()
        self._failed_attempts: dict[str, int] = {}

    def take(self, call: HttpRequest, asked: ParsedRequest) -> CallAttempt:
        """The call with its place among the others."""
        self.total += 1
        step_id = call.headers.get(STEP_HEADER) or None
        is_model_call = asked.route.operation in _FAULTED_OPERATIONS
        if is_model_call and self._is_counting:
            site = self._site(asked, call.attempt, step_id)
            return CallAttempt(asked, self.total, site.attempt, step_id, self._fault_at(site), site, site.overall)
        attempt = call.attempt or self._failed_attempts.get(asked.request_hash, 0) + 1
        if not is_model_call:
            return CallAttempt(asked, self.total, attempt, step_id)
        self._calls += attempt == 1 or not self._calls
        return CallAttempt(asked, self.total, attempt, step_id, call=self._calls)

    def note(self, taken: CallAttempt, *, failed: bool) -> None:
        """Remember how the call's answer ended."""
        if taken.site is not None:
            self._call_numbers.finish(taken.site, taken.asked.request_hash, failed=failed)
        elif failed:
            self._failed_attempts[taken.asked.request_hash] = taken.attempt
        elif self._failed_attempts:
            self._failed_attempts.pop(taken.asked.request_hash, None)

    def follow(self, plan: FaultPlan) -> None:
        """Let faults strike as this plan says, from now on."""
        self._plan = plan
        self._is_counting = self._counts_all or plan is not NO_FAULTS

    @property
    def fired_lines(self) -> list[PlannedFault]:
        """The lines of the plan that have fired so far."""
        return self._fired_lines

    def unfired(self) -> list[PlannedFault]:
        """The lines of the plan that have not fired so far."""
        return [planned for planned in self._plan if planned not in self._fired_lines]

    def _site(self, asked: ParsedRequest, client_attempt: int | None, step_id: str | None) -> Site:
        """Return the site of a call; `client_attempt` is which attempt its client says it is."""
        numbers, step, identity = self._call_numbers, ("", step_id), asked.request_hash
        is_repeated = self._counts_all and (client_attempt or 0) <= numbers.next_attempt(step, identity)
        return numbers.start(step, identity, attempt=None if is_repeated else client_attempt)

    def _fault_at(self, site: Site) -> AnyFault | None:
        fault = self._plan.fault_at(site)
        if fault is not None:
            self.fired.append(PlannedFault(At.of(site), fault))
            planned = self._plan.line_at(site)
            if planned is not None and planned not in self._fired_lines:
                self._fired_lines.append(planned)
        return fault


WireOutcome = Literal["served", "fault", "default", "made", "recorded", "passed", "missed", "refused"]
"""`served` from the recording, `fault` where one fired, `default` where the recording has nothing, `made` up (an
embedding, a list of models), `recorded` from upstream, `passed` on from there without being recorded (too large, or the
client left before anything came), `missed`, or `refused` as no call that can be answered."""


class WireCall(Struct, frozen=True, gc=False):
    """One try of a call that came over the wire, and what became of it.

    `number` counts what came to its session from 1, whatever was asked. `call` counts the calls of models as faults do,
    and is 0 for others; `attempt` is which try of the same call this is. `status` is None if the client was sent
    nothing; `key` names the entry that answered, or was recorded. `failure` says how the real API failed that was
    recorded. `request` is what was asked of a model.
    """

    number: int
    session: str
    vendor: str
    place: str
    outcome: WireOutcome
    model: str = ""
    status: int | None = None
    key: str | None = None
    fault: str | None = None
    attempt: int = 1
    request: Request | None = None
    method: str = "POST"
    call: int = 0
    failure: str = ""


def ignore_call(call: WireCall) -> None:
    """Tell nobody of a call."""


class Miss(Struct, frozen=True, gc=False):
    """A call that the recording has no answer for. `text` is all that is known: the nearest entry, and the diff.

    `call`, `attempt` and `number` are those of its WireCall. If it `is_after_fault`, one fired before it.
    """

    call: int
    session: str
    place: str
    kind: MismatchKind
    key: str | None
    text: str
    number: int
    attempt: int = 1
    method: str = "POST"
    is_after_fault: bool = False

    def __str__(self) -> str:
        return self.text
