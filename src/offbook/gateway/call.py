"""One call through the gateway, whole or streamed: its routes, attempts, waits and fallbacks, and its events."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from offbook.clock import Clock
from offbook.errors import AllProvidersFailedError, Attempt, NoProviderError, ProviderError, StreamInterruptedError
from offbook.events import (
    AttemptEnded,
    AttemptStarted,
    CallContent,
    CallEnded,
    CallStarted,
    FallbackTaken,
    RetryScheduled,
    Sink,
    capture_content,
)
from offbook.gateway.limits import Budget, Deadline
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
            NoProviderError: there is none.
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
