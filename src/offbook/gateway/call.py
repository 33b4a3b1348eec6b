"""One call through the gateway: tries, waits, and the next provider."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from offbook.clock import Clock
from offbook.errors import AllProvidersFailedError, Attempt, ProviderError
from offbook.events import Sink
from offbook.gateway.budget import Budget
from offbook.gateway.deadline import Deadline
from offbook.gateway.journey import Journey
from offbook.gateway.retry import RetryPolicy
from offbook.gateway.routing import Route
from offbook.messages import Reply, Request, Response, WholeReply


class CallRules(Struct, frozen=True):
    """What holds for every call of a gateway."""

    retry: RetryPolicy
    deadline_s: float | None
    restart_streams: bool
    budget: Budget
    sink: Sink
    clock: Clock


class Call:
    """A request on its way over its routes, from one attempt to the next."""

    _response: Response

    def __init__(self, request: Request, routes: Sequence[Route], rules: CallRules) -> None:
        self._request, self._routes, self._rules = request, routes, rules
        self._place, self._attempt = 0, 1
        self._attempts: list[Attempt] = []
        self._journey = Journey(request, sink=rules.sink, clock=rules.clock)
        self._deadline = Deadline(rules.deadline_s, attempts=self._attempts, clock=rules.clock)

    async def reply(self) -> Reply:
        """The complete reply to the request.

        Raises:
            AllProvidersFailedError: no route gave one.
            DeadlineExceededError: none did in time.
        """
        try:
            await self._deadline.meet(self._begin)
            self._finish(self._response)
        except BaseException as error:
            self._journey.ended(error)
            raise
        return WholeReply(self._response)

    async def _begin(self) -> None:
        """Ask the route and attempt whose turn it is, and those after it, until a reply can be taken."""
        while True:
            request = self._numbered()
            self._journey.attempt_started(self._route.provider.name, request)
            try:
                return await self._take(await self._route.provider.send(request))
            except ProviderError as error:
                await self._advance(error)

    async def _take(self, reply: Reply) -> None:
        """Take in the reply, as far as is needed to know that it works: all of it."""
        self._response = await reply.collect()

    async def _advance(self, error: ProviderError) -> None:
        """Go on after a failure: to the next attempt, after its wait, or to the next route.

        A wait that would outlast the deadline is not begun.
        """
        self._journey.attempt_ended(error)
        retry, now = self._rules.retry, self._rules.clock.utc_now()
        wait_s = retry.wait_s(error, self._request, self._attempt, now=now)
        is_late = wait_s is not None and wait_s >= self._deadline.left_s
        if is_late:
            wait_s = None
        note = "" if wait_s is not None else retry.refused_wait(error, now=now)
        self._attempts.append(Attempt(self._route.provider.name, self._attempt, error, wait_s or 0.0, note))
        if wait_s is not None:
            self._journey.retrying(error, wait_s, self._attempt)
            self._attempt += 1
            await self._rules.clock.sleep_s(wait_s)
        elif self._place + 1 < len(self._routes):
            self._place, self._attempt = self._place + 1, 1
            self._journey.falling_back(self._route.provider.name)
        else:
            raise self._deadline.exceeded() if is_late else AllProvidersFailedError(self._attempts) from error

    @property
    def _route(self) -> Route:
        return self._routes[self._place]

    def _numbered(self) -> Request:
        model = self._route.as_model or self._request.model
        if self._attempt == self._request.attempt and model == self._request.model:
            return self._request
        return replace(self._request, attempt=self._attempt, model=model)

    def _finish(self, response: Response) -> None:
        self._rules.budget.spend(response.cost_usd)
        self._journey.ended(response)
