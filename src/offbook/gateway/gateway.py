"""ProviderGateway: one provider made of many, which routes, retries, falls back and keeps within limits."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from itertools import count

from msgspec.structs import replace

from offbook.call_numbers import CallNumbers
from offbook.clock import SYSTEM_CLOCK, Clock
from offbook.errors import InputError
from offbook.events import NULL_SINK, Sink, Sinks, guard_sink
from offbook.gateway.breaker import NO_BREAKER, Breaker, BreakerPolicy, CircuitBreakerProvider
from offbook.gateway.call import CallRules, GatewayCall, StreamedGatewayCall
from offbook.gateway.limits import Budget
from offbook.gateway.rate_limit import RateLimit, RateLimitedProvider
from offbook.gateway.retry import RetryPolicy
from offbook.gateway.routing import ProviderRoute, RoutingTable
from offbook.messages import Reply, Request
from offbook.providers.provider import Provider
from offbook.schema_errors import check_type

DEFAULT_RETRY = RetryPolicy()
DEFAULT_BREAKER = BreakerPolicy()


class ProviderGateway(Provider):
    """Sends each request to the providers registered for its model: again after a failure, then to the next.

    Args:
        retry: when a provider is asked again, and after what wait.
        breaker: when a provider that keeps failing is left alone; None for never.
        deadline_s: the longest that a whole call may take, waits included; of a stream, until its last event.
        budget_usd: what all calls together may cost.
        restart_streams: start a stream over that broke after its first event (the reader is told by a
            StreamRestart); otherwise it ends in a StreamInterruptedError with what arrived.
        sink: told of every call, attempt, retry, fallback and change of a breaker.

    Raises:
        InputError: the deadline or the budget is below zero, or a policy is none.
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
            models: patterns of the models it takes, like `gpt-*`.
            priority: lower is asked first; of equal ones, what was registered first.
            is_fallback: asked only after all that are no fallback have failed.
            as_model: what to call the model when asking this provider.
            rate_limit: what it takes in a minute.

        A second provider of the same name is called `name-2`, and so on.

        Raises:
            InputError: it is no provider, or the class of one.
        """
        if not isinstance(provider, Provider):
            raise InputError(f"expected a provider, got {provider!r}", hint="register(MockProvider(…)), say")
        name = self._free_name(provider.name)
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
        sink: Sink | None = None,
    ) -> ProviderGateway:
        """The same gateway with other rules: `gateway.using(retry=…).complete(…)`.

        A `budget_usd` counts the calls made through what is given back; a `sink` is told beside the gateway's own.

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
            budget=budget,
            sink=rules.sink if sink is None else Sinks(rules.sink, sink),
        )
        other = object.__new__(type(self))
        vars(other).update(vars(self), budget=budget, _rules=changed)
        return other

    async def send(self, request: Request) -> Reply:
        self.budget.check()
        routes = self._routing.find(request.model)
        call = StreamedGatewayCall if request.stream else GatewayCall
        return await call(self._counted(request), routes, self._rules).reply()

    async def close(self) -> None:
        """Close all providers, even if one of them fails to."""
        async with AsyncExitStack() as stack:
            for route in self._routing.routes:
                stack.push_async_callback(route.provider.close)

    def _free_name(self, name: str) -> str:
        numbered = (name if number == 1 else f"{name}-{number}" for number in count(1))
        return next(free for free in numbered if free not in self.breakers)

    def _counted(self, request: Request) -> Request:
        """The request with the number of its call, counted by workflow and step."""
        if request.call:
            return request
        step = (request.workflow, request.step_id)
        return replace(request, call=self._call_numbers.next_call(step))


def _check_retry(retry: object) -> None:
    """Raises InputError if that is no RetryPolicy."""
    times = retry if isinstance(retry, int) else 3
    check_type(retry, RetryPolicy, source="retry", hint=f"retry=RetryPolicy(max_retries={times:d})")


def _checked_deadline(deadline_s: float | None) -> float | None:
    if deadline_s is not None and not deadline_s > 0:
        raise InputError(f"expected seconds above zero, got {deadline_s!r}", source="deadline_s")
    return deadline_s
