"""RetryPolicy: which failures are retried, and after what wait."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from hashlib import blake2b

from msgspec import Struct

from offbook.codecs.status import retry_after_s
from offbook.errors import BreakerOpenError, InputError, ProviderError, RateLimitError
from offbook.messages import Request
from offbook.schema_errors import check_int, check_number, check_type

RETRYABLE_STATUSES = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})


class RetryPolicy(Struct, frozen=True):
    """How often and after what wait a failed call is tried again on the same provider.

    The n-th wait is `backoff_s` times `multiplier` to the power of n - 1, at most `max_backoff_s`,
    plus or minus up to `jitter` of itself, drawn from `seed` and the call's identity alone. A
    `Retry-After` is obeyed instead; one above `max_retry_after_s` means that the call is not tried
    again here. Failures without a status (timeouts, broken connections, malformed answers) are
    always worth a retry; a header `x-should-retry` overrides all that.

    Raises:
        InputError: a field is no number, or below zero; `jitter` is above one; `statuses` is no collection.
    """

    max_retries: int = 2
    backoff_s: float = 0.5
    multiplier: float = 2.0
    max_backoff_s: float = 30.0
    jitter: float = 0.1
    seed: int = 0
    max_retry_after_s: float = 60.0
    statuses: frozenset[int] = RETRYABLE_STATUSES

    def __post_init__(self) -> None:
        check_int(self.max_retries, source="max_retries")
        check_type(self.statuses, Collection, source="statuses", hint="statuses={429, 503}")
        for name in ("max_retries", "backoff_s", "multiplier", "max_backoff_s", "jitter", "max_retry_after_s"):
            check_number(getattr(self, name), source=name)
            if not getattr(self, name) >= 0:
                raise InputError(f"expected zero or more, got {getattr(self, name)!r}", source=name)
        if self.jitter > 1:
            raise InputError(f"expected a share from 0 to 1, got {self.jitter!r}", source="jitter")

    def wait_s(self, error: ProviderError, request: Request, attempt: int, *, now: datetime) -> float | None:
        """Seconds to wait before the try after `attempt`, or None if there should be none.

        `now` is what a `Retry-After` date counts from.
        """
        if attempt > self.max_retries or not self._is_worth_it(error):
            return None
        asked_s = _requested_wait_s(error, now)
        if asked_s is not None:
            return asked_s if asked_s <= self.max_retry_after_s else None
        return self.pause_s(request, attempt)

    def refused_wait(self, error: ProviderError, *, now: datetime) -> str:
        """In words that the provider asks for a longer wait than it is given; empty if it does not."""
        asked_s = _requested_wait_s(error, now)
        if asked_s is None or asked_s <= self.max_retry_after_s or not self._is_worth_it(error):
            return ""
        return f"it asks to wait {asked_s:g} s, and max_retry_after_s is {self.max_retry_after_s:g}"

    def pause_s(self, request: Request, attempt: int) -> float:
        """Seconds to wait after the try of that number, where nobody asked for another wait."""
        return self._backoff_s(attempt) * (1.0 + self.jitter * self._draw(request, attempt))

    def _is_worth_it(self, error: ProviderError) -> bool:
        told = next((value for name, value in error.headers.items() if name.lower() == "x-should-retry"), "")
        if told in ("true", "false"):
            return told == "true"
        if isinstance(error, BreakerOpenError):
            return False
        return error.status_code is None or error.status_code in self.statuses

    def _backoff_s(self, attempt: int) -> float:
        try:
            return min(self.backoff_s * float(self.multiplier) ** (attempt - 1), self.max_backoff_s)
        except OverflowError:
            return self.max_backoff_s

    def _draw(self, request: Request, attempt: int) -> float:
        """A number from -1 to 1 that depends on nothing but the seed and which try of which call this is."""
        identity = f"{self.seed}:{request.workflow}:{request.step_id}:{request.call}:{attempt}"
        lot = blake2b(identity.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        return int.from_bytes(lot, "big") / 2**63 - 1.0


def _requested_wait_s(error: ProviderError, now: datetime) -> float | None:
    """How long the provider asks to wait, if it does."""
    if isinstance(error, RateLimitError) and error.retry_after_s is not None:
        return error.retry_after_s
    return retry_after_s(error.headers, now=now) if error.headers else None
