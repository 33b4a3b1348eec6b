"""All faults by the names under which they are declared, and the fault that tells of an error."""

from typing import TypeAlias

from understudy.errors import MalformedResponseError, ProviderError
from understudy.faults.connection_reset import ConnectionReset
from understudy.faults.http_error import HttpError
from understudy.faults.malformed_response import MalformedResponse
from understudy.faults.stream_truncate import StreamTruncate
from understudy.faults.timeout import Timeout

AnyFault: TypeAlias = ConnectionReset | HttpError | MalformedResponse | StreamTruncate | Timeout

FAULT_TYPES: dict[str, type[AnyFault]] = {
    str(fault.__struct_config__.tag): fault
    for fault in (ConnectionReset, HttpError, MalformedResponse, StreamTruncate, Timeout)
}


def fault_of(error: Exception, *, after_ms: float) -> AnyFault:
    """The fault whose replay raises the like of `error`, which ended a call before its first event."""
    match error:
        case MalformedResponseError():
            return MalformedResponse(raw=error.raw)
        case TimeoutError():
            return Timeout(after_ms=after_ms)
        case ProviderError(status_code=int(status_code)):
            return HttpError(status_code, headers=error.headers, body=error.body)
        case _:
            return ConnectionReset()


def stream_fault_of(error: BaseException, *, after_chunks: int) -> StreamTruncate:
    """The fault whose replay breaks a stream the way `error` did. Nobody's error is a reader that stopped."""
    match error:
        case TimeoutError():
            return StreamTruncate(after_chunks, "TimeoutError")
        case ConnectionError():
            return StreamTruncate(after_chunks, "ConnectionError")
        case ProviderError():
            return StreamTruncate(after_chunks, "error_event")
        case _:
            return StreamTruncate(after_chunks, "clean")
