"""Maps an HTTP error status to the error that offbook raises, and reads Retry-After."""

from collections.abc import Mapping
from datetime import UTC, datetime
from math import isfinite

from offbook.errors import ProviderError, RateLimitError


def error_of_status(
    status_code: int, *, headers: Mapping[str, str], body: str, message: str, now: datetime
) -> ProviderError:
    """Return the error for a response with a status other than 200. A `Retry-After` date is relative to `now`."""
    reason = f"HTTP {status_code}: {message}"
    if status_code == 429:
        return RateLimitError(reason, headers=headers, body=body, retry_after_s=retry_after_s(headers, now=now))
    return ProviderError(reason, status_code=status_code, headers=headers, body=body)


def retry_after_s(headers: Mapping[str, str], *, now: datetime) -> float | None:
    """Return how long the provider asks to wait: `retry-after-ms`, or `retry-after` in seconds or as a date.

    A date is relative to the `date` of the same response, or to `now` if it has none.
    """
    lowered = {name.lower(): value for name, value in headers.items()}
    for name, unit_s in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            wait_s = float(lowered[name]) * unit_s
        except (KeyError, ValueError):
            continue
        return max(0.0, wait_s) if isfinite(wait_s) else None
    moment = _moment(lowered.get("retry-after"))
    if moment is None:
        return None
    return max(0.0, (moment - (_moment(lowered.get("date")) or now)).total_seconds())


def _moment(date: str | None) -> datetime | None:
    from email.utils import parsedate_to_datetime  # noqa: PLC0415 - it loads sockets, and is seldom needed

    try:
        moment = parsedate_to_datetime(date or "")
    except (ValueError, OverflowError):
        return None
    return moment.replace(tzinfo=moment.tzinfo or UTC)
