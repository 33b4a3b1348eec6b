"""Turns an error into the fault that raises the like, so that a recorded failure can be replayed."""

from datetime import timedelta

from offbook.clock import VIRTUAL_EPOCH
from offbook.codecs.base import retry_after_s
from offbook.errors import MalformedResponseError, ProviderError, RateLimitError
from offbook.faults.catalog import AnyFault
from offbook.faults.http import ConnectionReset, HttpError, Timeout
from offbook.faults.response import MalformedResponse
from offbook.faults.stream import StreamTruncate

_TWO_TIMES = (VIRTUAL_EPOCH, VIRTUAL_EPOCH + timedelta(days=1))


def fault_of(error: Exception, *, after_ms: float) -> AnyFault:
    """Return the fault that raises the like of `error`, which ended a call before its first event."""
    match error:
        case MalformedResponseError():
            return MalformedResponse(raw=error.raw)
        case TimeoutError():
            return Timeout(after_ms=after_ms)
        case ConnectionError():
            return ConnectionReset()
        case ProviderError(status_code=int(status_code)):
            return HttpError(status_code, headers=_headers_of(error), body=error.body)
        case _:
            return StreamTruncate(0, "error_event")


def _headers_of(error: ProviderError) -> dict[str, str]:
    """Return the headers of the error, with the seconds to wait if they have none, or a date."""
    wait_s = error.retry_after_s if isinstance(error, RateLimitError) else None
    if wait_s is None or {retry_after_s(error.headers, now=now) for now in _TWO_TIMES} == {wait_s}:
        return error.headers
    others = {name: text for name, text in error.headers.items() if not name.lower().startswith("retry-after")}
    return others | {"retry-after": repr(wait_s)}


def stream_fault_of(error: BaseException, *, after_chunks: int) -> StreamTruncate:
    """Return the fault that ends a stream like `error` did. Other errors mean that the caller stopped reading."""
    match error:
        case TimeoutError():
            return StreamTruncate(after_chunks, "TimeoutError")
        case ConnectionError():
            return StreamTruncate(after_chunks, "ConnectionError")
        case MalformedResponseError():
            return StreamTruncate(after_chunks, "malformed")
        case ProviderError():
            return StreamTruncate(after_chunks, "error_event")
        case _:
            return StreamTruncate(after_chunks, "clean")
