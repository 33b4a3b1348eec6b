"""RetryPolicy: the failures to retry, and the waits between attempts."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from msgspec import Struct

from offbook.codecs.base import retry_after_s
from offbook.errors import BreakerOpenError, InputError, ProviderError, RateLimitError
from offbook.messages import Request
from offbook.schema_errors import check_int, check_number, check_type

RETRYABLE_STATUSES = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})


class RetryPolicy(Struct, frozen=True):
    """The number of retries of a failed call at the same provider, and the waits between them.

    The n-th wait is `backoff_s` times `multiplier` to the power of n - 1, at most `max_backoff_s`, plus or minus up to
    `jitter` of itself, drawn from `seed` and the call's identity alone. A `Retry-After` replaces it; if that exceeds
    `max_retry_after_s`, the call is not retried here. Failures without a status (timeouts, broken connections,
    malformed responses) are always retried. A header `x-should-retry` overrides all of this.

    Raises:
        InputError: a field is not a number or is below zero, `jitter` is above one, or `statuses` is not a collection.
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
        """Return the seconds to wait before the attempt after `attempt`, or None for no further attempt.

        A `Retry-After` date is relative to `now`.
        """
        if attempt > self.max_retries or not self._is_retryable(error):
            return None
        requested_s = _requested_wait_s(error, now)
        if requested_s is not None:
            return requested_s if requested_s <= self.max_retry_after_s else None
        return self.pause_s(request, attempt)

    def wait_refusal(self, error: ProviderError, *, now: datetime) -> str:
        """Return a note if the provider requests a longer wait than allowed; else ""."""
        requested_s = _requested_wait_s(error, now)
        if requested_s is None or requested_s <= self.max_retry_after_s or not self._is_retryable(error):
            return ""
        return f"it asks to wait {requested_s:g} s, and max_retry_after_s is {self.max_retry_after_s:g}"

    def pause_s(self, request: Request, attempt: int) -> float:
        """Return the seconds to wait after `attempt`, without a `Retry-After`."""
        return self._backoff_s(attempt) * (1.0 + self.jitter * self._draw(request, attempt))

    def _is_retryable(self, error: ProviderError) -> bool:
        header = next((value for name, value in error.headers.items() if name.lower() == "x-should-retry"), "")
        if header in ("true", "false"):
            return header == "true"
        if isinstance(error, BreakerOpenError):
            return False
        return error.status_code is None or error.status_code in self.statuses

    def _backoff_s(self, attempt: int) -> float:
        try:
            return min(self.backoff_s * float(self.multiplier) ** (attempt - 1), self.max_backoff_s)
        except OverflowError:
            return self.max_backoff_s

    def _draw(self, request: Request, attempt: int) -> float:
        """Return a number from -1 to 1 that depends only on the seed, the call and the attempt."""
        from hashlib import blake2b  # noqa: PLC0415 - only retries need it

        identity = f"{self.seed}:{request.workflow}:{request.step_id}:{request.call}:{attempt}"
        digest = blake2b(identity.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        return int.from_bytes(digest, "big") / 2**63 - 1.0


def _requested_wait_s(error: ProviderError, now: datetime) -> float | None:
    """Return the wait that the provider requests, or None."""
    if isinstance(error, RateLimitError) and error.retry_after_s is not None:
        return error.retry_after_s
    return retry_after_s(error.headers, now=now) if error.headers else None
