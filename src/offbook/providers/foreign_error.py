"""Translates errors that a user's own provider raises from other libraries to offbook's.

The gateway retries, falls back and opens a circuit on these errors, and the recorder stores them as faults: a replay
takes the same path as the run.
"""

from __future__ import annotations

import errno
from collections.abc import AsyncIterator

from offbook.clock import SYSTEM_CLOCK
from offbook.codecs.base import error_of_status
from offbook.errors import (
    MalformedResponseError,
    OffbookError,
    ProviderConnectionError,
    ProviderError,
    ProviderTimeoutError,
)
from offbook.messages import Reply, StreamedReply, StreamEvent, WholeReply

_NETWORK_ERRNOS = frozenset(
    {errno.ENETDOWN, errno.ENETUNREACH, errno.ENETRESET, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENOTCONN}
)
_MISTAKES = {
    "httpx.UnsupportedProtocol",
    "httpx.LocalProtocolError",
    "httpx2.UnsupportedProtocol",
    "httpx2.LocalProtocolError",
    "httpcore.UnsupportedProtocol",
    "httpcore.LocalProtocolError",
    "urllib3.LocationValueError",
    "http.InvalidURL",
}
_MISTAKES_OF_URLLIB = ("unknown url type", "no host given")
_TIMEOUTS = {
    "httpx.TimeoutException",
    "httpx2.TimeoutException",
    "httpcore.TimeoutException",
    "requests.Timeout",
    "urllib3.TimeoutError",
    "openai.APITimeoutError",
    "anthropic.APITimeoutError",
}
_CONNECTIONS = {
    "httpx.TransportError",
    "httpx2.TransportError",
    "httpcore.NetworkError",
    "httpcore.ProtocolError",
    "requests.ConnectionError",
    "requests.ChunkedEncodingError",
    "urllib3.HTTPError",
    "aiohttp.ClientConnectionError",
    "aiohttp.ClientPayloadError",
    "openai.APIConnectionError",
    "anthropic.APIConnectionError",
    "asyncio.IncompleteReadError",
    "http.HTTPException",
    "socket.gaierror",
    "socket.herror",
    "ssl.SSLError",
}
_MALFORMED = {"httpx.DecodingError", "httpx.TooManyRedirects", "httpx2.DecodingError", "httpx2.TooManyRedirects"}


def provider_error_of(error: BaseException, *, provider: str) -> ProviderError | None:
    """Return offbook's error for a failed model call, or None if `error` is not a failed call.

    A ProviderError is returned unchanged. Timeouts, broken connections and HTTP statuses are translated, of Python
    itself and of httpx, requests, aiohttp, urllib3 and the vendors' SDKs. Everything else, such as a ValueError, a
    FileNotFoundError or another offbook error, is a mistake that a retry does not fix.
    """
    if isinstance(error, ProviderError):
        return error
    if isinstance(error, OffbookError) or not isinstance(error, Exception):
        return None
    reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    status_code = _status_of(error)
    if status_code is not None:
        return error_of_status(
            status_code, headers=_headers_of(error), body=str(error), message=reason, now=SYSTEM_CLOCK.utc_now()
        ).attribute(provider)
    kind = _kind_of(error)
    return None if kind is None else kind(reason, provider=provider)


def translate_reply(reply: Reply, *, provider: str) -> Reply:
    """Return the reply wrapped, with its errors translated while it is read."""
    return reply if isinstance(reply, WholeReply) else StreamedReply(_translated(reply, provider), source=reply)


async def _translated(reply: Reply, provider: str) -> AsyncIterator[StreamEvent]:
    try:
        async for event in reply:
            yield event
    except Exception as error:
        failure = provider_error_of(error, provider=provider)
        if failure is None or failure is error:
            raise
        raise failure from error
    finally:
        await reply.aclose()


def _kind_of(error: Exception) -> type[ProviderError] | None:
    names = _names_of(error)
    if "urllib.URLError" in names:
        return _kind_of_reason(getattr(error, "reason", None))
    if names & _MISTAKES:
        return None
    if isinstance(error, TimeoutError) or names & _TIMEOUTS:
        return ProviderTimeoutError
    if isinstance(error, ConnectionError) or names & _CONNECTIONS or _is_network_error(error):
        return ProviderConnectionError
    return MalformedResponseError if names & _MALFORMED else None


def _kind_of_reason(reason: object) -> type[ProviderError] | None:
    """Return the kind of an URLError's reason: another error, or a text."""
    if isinstance(reason, Exception):
        return _kind_of(reason)
    return None if str(reason).startswith(_MISTAKES_OF_URLLIB) else ProviderConnectionError


def _names_of(error: Exception) -> set[str]:
    """Return the names of the error's classes, each after its library: no library is imported to recognise it."""
    return {f"{kind.__module__.partition('.')[0]}.{kind.__name__}" for kind in type(error).__mro__}


def _is_network_error(error: Exception) -> bool:
    return isinstance(error, OSError) and error.errno in _NETWORK_ERRNOS


def _status_of(error: Exception) -> int | None:
    """Return an error's HTTP status: its own, or that of its response."""
    response = getattr(error, "response", None)
    has_code = any(name.startswith(("urllib.", "google.")) for name in _names_of(error))  # others mean something else
    names = ("status_code", "status", "code") if has_code else ("status_code", "status")
    carried = [getattr(error, name, None) for name in names]
    statuses = [*carried, getattr(response, "status_code", None)]
    return next((status for status in statuses if isinstance(status, int) and 400 <= status <= 599), None)


def _headers_of(error: Exception) -> dict[str, str]:
    for carrier in (error, getattr(error, "response", None)):
        items = getattr(getattr(carrier, "headers", None), "items", None)
        if callable(items):
            return {str(name): str(value) for name, value in items()}
    return {}
