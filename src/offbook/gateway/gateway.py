"""ProviderGateway: one provider in front of many, with routing, retries, fallbacks and limits."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from itertools import count

from msgspec.structs import replace

from offbook.clock import SYSTEM_CLOCK, Clock
from offbook.errors import InputError
from offbook.events import NULL_SINK, Sink, Sinks, guard_sink
from offbook.gateway.breaker import NO_BREAKER, Breaker, BreakerPolicy, CircuitBreakerProvider
from offbook.gateway.call import CallRules, GatewayCall, ProviderRoute, RoutingTable, StreamedGatewayCall
from offbook.gateway.limits import Budget, RateLimit, RateLimitedProvider
from offbook.gateway.retry import RetryPolicy
from offbook.messages import Reply, Request
from offbook.providers.provider import Provider
from offbook.schema_errors import check_type
from offbook.session.numbers import CallNumbers

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
        """Return the same gateway with other rules: `gateway.using(retry=…).complete(…)`.

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
