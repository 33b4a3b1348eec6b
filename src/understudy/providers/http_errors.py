"""The one boundary where HTTP failures become our errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC
from email.utils import parsedate_to_datetime

from understudy.clock import SYSTEM_CLOCK
from understudy.errors import (
    InputError,
    MalformedResponseError,
    ProviderConnectionError,
    ProviderError,
    ProviderTimeoutError,
    RateLimitError,
)


@contextmanager
def translated_errors(provider: str) -> Iterator[None]:
    """Raise what httpx2 and the codecs raise as our errors, with the provider's name on them."""
    import httpx2  # noqa: PLC0415 - loading it takes longer than the rest of understudy

    try:
        yield
    except ProviderError as error:
        if not error.provider:
            error.provider = provider
            error.args = (f"{provider}: {error.args[0]}",)
        raise
    except (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, httpx2.CookieConflict) as error:
        raise translate(error, provider) from error


def translate(error: Exception, provider: str) -> ProviderError | InputError:
    """Our error for one of httpx2's."""
    import httpx2  # noqa: PLC0415

    told = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    match error:
        case httpx2.TimeoutException():
            return ProviderTimeoutError(f"no answer in time ({told})", provider=provider)
        case httpx2.InvalidURL() | httpx2.UnsupportedProtocol():
            return InputError(told, source=f"{provider}: base_url")
        case httpx2.DecodingError() | httpx2.TooManyRedirects() | httpx2.SSEError():
            return MalformedResponseError(told, provider=provider)
        case httpx2.TransportError() | httpx2.StreamError():
            return ProviderConnectionError(told, provider=provider)
        case _:
            return ProviderError(told, provider=provider)


def error_of_status(
    provider: str, status_code: int, headers: Mapping[str, str], body: bytes, message: str
) -> ProviderError:
    """Our error for an answer with a status other than 200."""
    told = f"HTTP {status_code}: {message}"
    text = body.decode("utf-8", "replace")
    if status_code == 429:
        return RateLimitError(told, provider=provider, headers=headers, body=text, retry_after_s=retry_after_s(headers))
    return ProviderError(told, provider=provider, status_code=status_code, headers=headers, body=text)


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """How long the provider asks to wait: `retry-after-ms`, or `retry-after` in seconds or as a date."""
    lowered = {name.lower(): value for name, value in headers.items()}
    for name, unit_s in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            return max(0.0, float(lowered[name]) * unit_s)
        except (KeyError, ValueError):
            continue
    return _seconds_until(lowered.get("retry-after"))


def _seconds_until(date: str | None) -> float | None:
    if date is None:
        return None
    try:
        moment = parsedate_to_datetime(date)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - SYSTEM_CLOCK.utc_now()).total_seconds())
