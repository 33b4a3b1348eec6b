"""The circuit breaker: opens the circuit on a provider that keeps failing."""

from __future__ import annotations

import sys
from typing import Literal

from msgspec import Struct

from offbook.clock import Clock
from offbook.errors import BreakerOpenError, InputError, ProviderError
from offbook.events import BreakerChanged, Sink
from offbook.messages import Reply, Request, Response
from offbook.providers.foreign_error import provider_error_of, translate_reply
from offbook.providers.provider import Provider, WrappedProvider, notify_on_end

BreakerState = Literal["closed", "open", "half_open"]
BreakerOutcome = Literal["success", "failure", "neither"]


class BreakerPolicy(Struct, frozen=True):
    """After `failures` failures in a row, the circuit is open for `reset_s`; then one call probes the provider."""

    failures: int = 5
    reset_s: float = 60.0

    def __post_init__(self) -> None:
        if self.failures < 1:
            raise InputError(f"expected one or more, got {self.failures!r}", source="failures")
        if not self.reset_s >= 0:
            raise InputError(f"expected seconds of zero or more, got {self.reset_s!r}", source="reset_s")


NO_BREAKER = BreakerPolicy(failures=sys.maxsize)


class Breaker:
    """Allows calls while closed, none while open, and one at a time while half open.

    The time between two changes of state is a period. The outcome of a call counts only in the period in which it
    started.
    """

    def __init__(self, name: str, policy: BreakerPolicy, *, clock: Clock, sink: Sink) -> None:
        self._name, self._policy, self._clock, self._sink = name, policy, clock, sink
        self.state: BreakerState = "closed"
        self._period = 0
        self._failures = 0
        self._opened_at_s = 0.0
        self._is_probing = False

    def enter(self) -> int:
        """Start a call, and return its period.

        Raises:
            BreakerOpenError: no call is allowed now.
        """
        if self.state == "closed":
            return self._period
        if self.state == "open":
            # The clock may be behind, being that of another event loop: then the breaker may reset.
            passed_s = self._clock.monotonic_s() - self._opened_at_s
            if 0 <= passed_s < self._policy.reset_s:
                left_s = self._policy.reset_s - passed_s
                raise BreakerOpenError(f"the circuit breaker is open for another {left_s:g} s", provider=self._name)
            self._become("half_open")
        if self._is_probing:
            raise BreakerOpenError("the circuit breaker is half open, and a call is probing", provider=self._name)
        self._is_probing = True
        return self._period

    def leave(self, outcome: BreakerOutcome, *, period: int) -> None:
        """Count the outcome of a call that started in `period`."""
        if period != self._period:
            return
        self._is_probing = False
        if outcome == "success":
            self._failures = 0
            self._become("closed")
        elif outcome == "failure":
            self._failures += 1
            if self._failures >= self._policy.failures:
                self._opened_at_s = self._clock.monotonic_s()
                self._become("open")

    def _become(self, state: BreakerState) -> None:
        if state != self.state:
            self.state = state
            self._period += 1
            self._sink.emit(BreakerChanged(self._name, state))


class CircuitBreakerProvider(WrappedProvider):
    """Calls `provider` while its breaker allows it. Errors of other libraries become ProviderErrors here."""

    def __init__(self, provider: Provider, breaker: Breaker, *, name: str) -> None:
        super().__init__(provider)
        self.name, self._breaker = name, breaker

    async def send(self, request: Request) -> Reply:
        period = self._breaker.enter()

        def ended(outcome: Response | BaseException) -> None:
            self._breaker.leave(classify_outcome(outcome), period=period)

        try:
            reply = await self._provider.send(request)
        except BaseException as error:
            failure = provider_error_of(error, provider=self.name) or error
            ended(failure)
            if failure is error:
                raise
            raise failure from error
        return notify_on_end(translate_reply(reply, provider=self.name), ended)

    async def close(self) -> None:
        await self._provider.close()


def classify_outcome(outcome: Response | BaseException) -> BreakerOutcome:
    """Return an outcome's meaning for the provider. Rate limits, rejected requests and cancellations are neutral."""
    if isinstance(outcome, Response):
        return "success"
    if not isinstance(outcome, ProviderError):
        return "neither"
    return "failure" if outcome.status_code is None or outcome.status_code >= 500 else "neither"
