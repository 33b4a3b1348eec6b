"""ProviderGateway: one provider in front of many, with routes, attempts, waits, fallbacks and limits for each call."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Sequence
from contextlib import AsyncExitStack
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import count

from msgspec import Struct
from msgspec.structs import replace

from offbook.clock import SYSTEM_CLOCK, Clock
from offbook.errors import (
    AllProvidersFailedError,
    Attempt,
    InputError,
    NoProviderError,
    ProviderError,
    StreamInterruptedError,
)
from offbook.events import (
    NULL_SINK,
    AttemptEnded,
    AttemptStarted,
    CallContent,
    CallEnded,
    CallStarted,
    FallbackTaken,
    RetryScheduled,
    Sink,
    Sinks,
    capture_content,
    guard_sink,
)
from offbook.gateway.breaker import NO_BREAKER, Breaker, BreakerPolicy, CircuitBreakerProvider
from offbook.gateway.limits import Budget, Deadline, RateLimit, RateLimitedProvider
from offbook.gateway.retry import RetryPolicy
from offbook.messages import (
    Accumulator,
    Reply,
    Request,
    Response,
    StreamDelta,
    StreamedReply,
    StreamEnd,
    StreamEvent,
    StreamRestart,
    WholeReply,
)
from offbook.providers.provider import Provider
from offbook.schema_errors import check_type
from offbook.session.numbers import CallNumbers

CACHED_MODELS = 256


class ProviderRoute(Struct, frozen=True):
    """A provider, the models that it accepts, its rank, and the name of the model at that provider.

    Lower `priority` comes first; fallbacks come last.
    """

    provider: Provider
    models: tuple[str, ...] = ("*",)
    priority: int = 0
    is_fallback: bool = False
    as_model: str | None = None

    def accepts(self, model: str) -> bool:
        return any(fnmatchcase(model, pattern) for pattern in self.models)

    def with_own_model(self, request: Request) -> Request:
        """Return the request with the name that its model has at this provider."""
        return request if self.as_model in (None, request.model) else replace(request, model=self.as_model)


class RoutingTable:
    """All routes in order of registration, and those of each model."""

    def __init__(self) -> None:
        self.routes: list[ProviderRoute] = []
        self._cached_find = lru_cache(CACHED_MODELS)(self._find)

    def add(self, route: ProviderRoute) -> None:
        self.routes.append(route)
        self._cached_find.cache_clear()

    def find(self, model: str) -> list[ProviderRoute]:
        """Return the routes that accept `model`, first choice first.

        Raises:
            NoProviderError: no route accepts the model.
        """
        return self._cached_find(model)

    def _find(self, model: str) -> list[ProviderRoute]:
        chosen = [route for route in self.routes if route.accepts(model)]
        if not chosen:
            known = "; ".join(f"{route.provider.name}: {', '.join(route.models)}" for route in self.routes)
            hint = f"registered: {known}" if known else "gateway.register(provider) first"
            raise NoProviderError(f"no provider accepts model {model!r}", hint=hint)
        return sorted(chosen, key=lambda route: (route.is_fallback, route.priority))


class CallEvents:
    """Emits the events of one call, in order. An attempt that is in progress when the call ends, ends with it."""

    def __init__(self, request: Request, *, sink: Sink, clock: Clock) -> None:
        self._request, self._sink, self._clock = request, sink, clock
        self._started_s = clock.monotonic_s()
        self._attempt: AttemptStarted | None = None
        self._attempt_started_s = 0.0
        self._provider = ""
        sink.emit(CallStarted(request.step_id, request.model, request.workflow, request.call))

    def attempt_started(self, provider: str, request: Request) -> None:
        self._provider = provider
        self._attempt_started_s = self._clock.monotonic_s()
        self._attempt = AttemptStarted(
            request.step_id, provider, request.model, request.workflow, request.call, request.attempt
        )
        self._sink.emit(self._attempt)

    def attempt_ended(self, error: BaseException | None) -> None:
        started, self._attempt = self._attempt, None
        if started is None:
            return
        self._sink.emit(
            AttemptEnded(
                step_id=started.step_id,
                provider=started.provider,
                model=started.model,
                latency_s=self._clock.monotonic_s() - self._attempt_started_s,
                error=None if error is None else type(error).__name__,
                status_code=error.status_code if isinstance(error, ProviderError) else None,
                workflow=started.workflow,
                call=started.call,
                attempt=started.attempt,
            )
        )

    def retrying(self, error: ProviderError, wait_s: float, attempt: int) -> None:
        request = self._request
        self._sink.emit(
            RetryScheduled(
                step_id=request.step_id,
                provider=self._provider,
                wait_s=wait_s,
                error=type(error).__name__,
                workflow=request.workflow,
                call=request.call,
                attempt=attempt,
            )
        )

    def falling_back(self, provider: str) -> None:
        request = self._request
        self._sink.emit(FallbackTaken(request.step_id, self._provider, provider, request.workflow, request.call))

    def ended(self, outcome: Response | BaseException) -> None:
        """Emit the end of the call: with its response, or with its error (also that of a cancellation)."""
        error = outcome if isinstance(outcome, BaseException) else None
        response = outcome if isinstance(outcome, Response) else Response(finish_reason=None)
        self.attempt_ended(error)
        request = self._request
        answer = outcome if isinstance(outcome, Response) else None
        capture_content(
            self._sink, lambda: CallContent(request, answer, request.step_id, request.workflow, request.call)
        )
        self._sink.emit(
            CallEnded(
                step_id=request.step_id,
                provider=self._provider,
                model=response.model or request.model,
                latency_s=self._clock.monotonic_s() - self._started_s,
                prompt_tokens=response.usage.prompt_tokens,
                completion_tokens=response.usage.completion_tokens,
                reasoning_tokens=response.usage.reasoning_tokens,
                cost_usd=response.cost_usd,
                finish_reason=response.finish_reason,
                error=None if error is None else type(error).__name__,
                workflow=request.workflow,
                call=request.call,
            )
        )


class CallRules(Struct, frozen=True, kw_only=True):
    """The rules of every call of a gateway."""

    retry: RetryPolicy
    deadline_s: float | None
    restart_streams: bool
    budget: Budget
    sink: Sink
    clock: Clock


class GatewayCall:
    """One call: tries its routes, attempt by attempt."""

    _response: Response

    def __init__(self, request: Request, routes: Sequence[ProviderRoute], rules: CallRules) -> None:
        self._request, self._routes, self._rules = request, routes, rules
        self._place, self._attempt = 0, 1
        self._attempts: list[Attempt] = []
        self._call_events = CallEvents(request, sink=rules.sink, clock=rules.clock)
        self._deadline = Deadline(rules.deadline_s, attempts=self._attempts, clock=rules.clock)

    async def reply(self) -> Reply:
        """Return the complete reply.

        Raises:
            AllProvidersFailedError: every route failed.
            DeadlineExceededError: no route answered in time.
        """
        try:
            await self._deadline.meet(self._begin)
            self._finish(self._response)
        except BaseException as error:
            self._call_events.ended(error)
            raise
        return WholeReply(self._response)

    async def _begin(self) -> None:
        """Make attempts, from the current one on, until a reply is accepted."""
        while True:
            request = self._attempt_request()
            self._call_events.attempt_started(self._route.provider.name, request)
            try:
                return await self._accept(await self._route.provider.send(request))
            except ProviderError as error:
                await self._next_attempt(error)

    async def _accept(self, reply: Reply) -> None:
        """Read the whole reply."""
        self._response = await reply.collect()

    async def _next_attempt(self, error: ProviderError) -> None:
        """Move on after a failure: to the next attempt, after its wait, or to the next route.

        A wait that would exceed the deadline is not started.
        """
        self._call_events.attempt_ended(error)
        retry, now = self._rules.retry, self._rules.clock.utc_now()
        wait_s = retry.wait_s(error, self._request, self._attempt, now=now)
        is_late = wait_s is not None and wait_s >= self._deadline.left_s
        if is_late:
            wait_s = None
        note = "" if wait_s is not None else retry.wait_refusal(error, now=now)
        self._attempts.append(Attempt(self._route.provider.name, self._attempt, error, wait_s or 0.0, note))
        if wait_s is not None:
            self._call_events.retrying(error, wait_s, self._attempt)
            self._attempt += 1
            await self._rules.clock.sleep_s(wait_s)
        elif self._place + 1 < len(self._routes):
            self._place, self._attempt = self._place + 1, 1
            self._call_events.falling_back(self._route.provider.name)
        else:
            raise self._deadline.exceeded() if is_late else AllProvidersFailedError(self._attempts) from error

    @property
    def _route(self) -> ProviderRoute:
        return self._routes[self._place]

    def _attempt_request(self) -> Request:
        request = self._route.with_own_model(self._request)
        return request if self._attempt == request.attempt else replace(request, attempt=self._attempt)

    def _finish(self, response: Response) -> None:
        self._rules.budget.spend(response.cost_usd)
        self._call_events.ended(response)


async def reply_from_first_event(events: AsyncGenerator[StreamEvent, None]) -> StreamedReply:
    """Return the reply of `events` when the first of them has arrived.

    The generator has started then, so the event loop closes it even if the reply is neither read nor closed.
    """
    return StreamedReply(_FirstThenRest(await anext(events), events), source=events)


class _FirstThenRest(AsyncIterator[StreamEvent]):
    """Yields an event that was already read, then the rest."""

    def __init__(self, first: StreamEvent, rest: AsyncIterator[StreamEvent]) -> None:
        self._first: StreamEvent | None = first
        self._rest = rest

    def __anext__(self) -> Awaitable[StreamEvent]:
        first, self._first = self._first, None
        return self._rest.__anext__() if first is None else _immediate(first)

    async def aclose(self) -> None:
        self._first = None


async def _immediate(event: StreamEvent) -> StreamEvent:
    return event


class StreamedGatewayCall(GatewayCall):
    """A streamed call. A failure after the first event ends the stream, or restarts it."""

    _reply: Reply
    _events: AsyncIterator[StreamEvent]
    _first: StreamEvent | None
    _seen: list[StreamDelta | StreamRestart]

    async def reply(self) -> Reply:
        """Return the reply when its first event has arrived.

        Raises:
            AllProvidersFailedError: every route failed.
            DeadlineExceededError: no route answered in time.
        """
        return await reply_from_first_event(self._stream())

    async def _stream(self) -> AsyncGenerator[StreamEvent, None]:
        try:
            await self._deadline.meet(self._begin)
            try:
                while not isinstance(event := await self._deadline.meet(self._next), StreamEnd):
                    self._seen.append(event)
                    yield event
            finally:
                await self._reply.aclose()
            self._finish(event.response)
        except BaseException as error:
            self._call_events.ended(error)
            raise
        yield event

    async def _accept(self, reply: Reply) -> None:
        """Read the reply up to its first event."""
        self._events, self._seen = aiter(reply), []
        self._reply = StreamedReply(self._events, source=reply)
        self._first = await anext(self._events)

    async def _next(self) -> StreamEvent:
        """Return the next event: a StreamRestart if the stream broke and restarts."""
        event, self._first = self._first, None
        if event is not None:
            return event
        try:
            return await anext(self._events)
        except ProviderError as error:
            if not self._rules.restart_streams:
                self._call_events.attempt_ended(error)
                raise StreamInterruptedError(error, partial=self._partial()) from error
            await self._next_attempt(error)
            await self._begin()
            return StreamRestart(str(error))

    def _partial(self) -> Response:
        """Return the response up to where the stream broke."""
        joined = Accumulator()
        for event in self._seen:
            if isinstance(event, StreamRestart):
                joined = Accumulator()
            else:
                joined.add(event)
        return joined.join(Response(model=self._request.model, provider=self._route.provider.name, finish_reason=None))


DEFAULT_RETRY = RetryPolicy()
DEFAULT_BREAKER = BreakerPolicy()


class ProviderGateway(Provider):
    """Sends each request to the providers registered for its model: retries after a failure, then tries the next.

    Args:
        retry: which failures are retried, and after what wait.
        breaker: when the circuit opens on a provider that keeps failing; None for never.
        deadline_s: the longest that a whole call may take, including waits; for a stream, until its last event.
        budget_usd: the limit for the cost of all calls together.
        restart_streams: restart a stream that broke after its first event (the reader gets a StreamRestart);
            otherwise it ends with a StreamInterruptedError that has the partial response.
        sink: receives the events of every call, attempt, retry, fallback and breaker.

    Raises:
        InputError: the deadline or the budget is below zero, or a policy has the wrong type; from a call, if there
            is a budget and a provider that may be asked knows no price for the model.
    """

    name = "gateway"

    def __init__(
        self,
        *,
        retry: RetryPolicy = DEFAULT_RETRY,
        breaker: BreakerPolicy | None = DEFAULT_BREAKER,
        deadline_s: float | None = None,
        budget_usd: float | None = None,
        restart_streams: bool = False,
        sink: Sink = NULL_SINK,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        _check_retry(retry)
        if breaker is not None:
            hint = "breaker=BreakerPolicy(failures=3), or None"
            check_type(breaker, BreakerPolicy, source="breaker", hint=hint)
        self.budget = Budget(budget_usd)
        self.breakers: dict[str, Breaker] = {}
        self._breaker_policy = breaker or NO_BREAKER
        self._routing = RoutingTable()
        self._call_numbers = CallNumbers()
        self._rules = CallRules(
            retry=retry,
            deadline_s=_checked_deadline(deadline_s),
            restart_streams=restart_streams,
            budget=self.budget,
            sink=guard_sink(sink),
            clock=clock,
        )

    def register(
        self,
        provider: Provider,
        *,
        models: Sequence[str] = ("*",),
        priority: int = 0,
        is_fallback: bool = False,
        as_model: str | None = None,
        rate_limit: RateLimit | None = None,
    ) -> None:
        """Add a provider.

        Args:
            models: patterns of the models that it accepts, like `gpt-*`.
            priority: lower is tried first; equal ones in the order of registration.
            is_fallback: tried only after all others have failed.
            as_model: the name of the model at this provider.
            rate_limit: its limits per minute.

        A second provider of the same name is called `name-2`, and so on.

        Raises:
            InputError: `provider` is not a provider, or a class instead of an instance.
        """
        if not isinstance(provider, Provider):
            raise InputError(f"expected a provider, got {provider!r}", hint="like register(MockProvider(…))")
        self.credentials += provider.credentials
        numbered = (provider.name if number == 1 else f"{provider.name}-{number}" for number in count(1))
        name = next(free for free in numbered if free not in self.breakers)
        limited = provider if rate_limit is None else RateLimitedProvider(provider, rate_limit, clock=self._rules.clock)
        breaker = Breaker(name, self._breaker_policy, clock=self._rules.clock, sink=self._rules.sink)
        self.breakers[name] = breaker
        breaking = CircuitBreakerProvider(limited, breaker, name=name)
        self._routing.add(ProviderRoute(breaking, tuple(models), priority, is_fallback, as_model))

    def using(
        self,
        *,
        retry: RetryPolicy | None = None,
        deadline_s: float | None = None,
        budget_usd: float | None = None,
        restart_streams: bool | None = None,
        sink: Sink | None = None,
    ) -> ProviderGateway:
        """Return the gateway with other rules: `gateway.using(retry=…).complete(…)`.

        A `budget_usd` counts the calls through the returned gateway; a `sink` is added to the gateway's own.

        Raises:
            InputError: as for the gateway itself.
        """
        if retry is not None:
            _check_retry(retry)
        rules = self._rules
        budget = self.budget if budget_usd is None else Budget(budget_usd)
        changed = replace(
            rules,
            retry=retry or rules.retry,
            deadline_s=_checked_deadline(deadline_s) or rules.deadline_s,
            restart_streams=rules.restart_streams if restart_streams is None else restart_streams,
            budget=budget,
            sink=rules.sink if sink is None else Sinks(rules.sink, sink),
        )
        # Breakers, routes and call numbers stay shared: a provider that keeps failing does so under any rules.
        other = object.__new__(type(self))
        vars(other).update(vars(self), budget=budget, _rules=changed)
        return other

    async def send(self, request: Request) -> Reply:
        self.budget.check()
        routes = self._routing.find(request.model)
        if self.budget.limit_usd is not None:
            self.budget.check_price(self, request)
        call = StreamedGatewayCall if request.stream else GatewayCall
        return await call(self._with_call_number(request), routes, self._rules).reply()

    def check_price(self, request: Request) -> None:
        for route in self._routing.find(request.model):
            route.provider.check_price(route.with_own_model(request))

    async def close(self) -> None:
        """Close all providers, even if closing one of them fails."""
        async with AsyncExitStack() as stack:
            for route in self._routing.routes:
                stack.push_async_callback(route.provider.close)

    def _with_call_number(self, request: Request) -> Request:
        """Return the request with the number of its call, counted by workflow and step."""
        if request.call:
            return request
        step = (request.workflow, request.step_id)
        return replace(request, call=self._call_numbers.next_call(step))


def _check_retry(retry: object) -> None:
    """Raise InputError if `retry` is not a RetryPolicy."""
    times = retry if isinstance(retry, int) else 3
    check_type(retry, RetryPolicy, source="retry", hint=f"retry=RetryPolicy(max_retries={times:d})")


def _checked_deadline(deadline_s: float | None) -> float | None:
    if deadline_s is not None and not deadline_s > 0:
        raise InputError(f"expected seconds above zero, got {deadline_s!r}", source="deadline_s")
    return deadline_s
