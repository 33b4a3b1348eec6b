"""The one boundary where HTTP failures become our errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from offbook.errors import (
    InputError,
    MalformedResponseError,
    ProviderConnectionError,
    ProviderError,
    ProviderTimeoutError,
)

if TYPE_CHECKING:
    import httpx2


@contextmanager
def translated_errors(provider: str) -> Iterator[None]:
    """Raise what httpx2 and the codecs raise as our errors, with the provider's name on them."""
    import httpx2  # noqa: PLC0415 - loading it takes longer than the rest of offbook

    try:
        yield
    except ProviderError as error:
        error.attribute(provider)
        raise
    except (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, httpx2.CookieConflict) as error:
        raise translate(error, provider) from error


def translate(error: Exception, provider: str) -> ProviderError | InputError:
    """Our error for one of httpx2's."""
    import httpx2  # noqa: PLC0415

    told = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    match error:
        case httpx2.ConnectError() | httpx2.ConnectTimeout():
            kind = ProviderTimeoutError if isinstance(error, httpx2.ConnectTimeout) else ProviderConnectionError
            return kind(f"no connection{_server_of(error)} ({told})", provider=provider)
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


def _server_of(error: httpx2.RequestError) -> str:
    """Which server was asked, without what may be secret in its URL."""
    try:
        url = error.request.url
    except (AttributeError, RuntimeError):  # an error that belongs to no request
        return ""
    return f" to {url.scheme}://{url.netloc.decode()}"
