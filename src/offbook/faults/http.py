"""Faults of HTTP: the connection fails, the status is an error, or the content type is wrong."""

from typing import Annotated, NoReturn

from msgspec import Meta, field

from offbook.codecs.base import error_message
from offbook.codecs.status import error_of_status
from offbook.errors import MalformedResponseError, ProviderConnectionError, ProviderTimeoutError
from offbook.faults.fault import Fault, FaultedCall


class ConnectionReset(Fault, frozen=True, tag="connection_reset"):
    """Raises a ProviderConnectionError at once."""

    async def apply(self, call: FaultedCall) -> NoReturn:
        raise ProviderConnectionError("connection reset", provider=call.provider)


class Timeout(Fault, frozen=True, tag="timeout"):
    """Waits `after_ms`, then raises a ProviderTimeoutError."""

    after_ms: Annotated[float, Meta(ge=0)] = 0.0

    async def apply(self, call: FaultedCall) -> NoReturn:
        await call.clock.sleep_s(self.after_ms / 1000.0)
        raise ProviderTimeoutError(f"no answer within {self.after_ms:g} ms", provider=call.provider)


class HttpError(Fault, frozen=True, tag="http_error"):
    """Raises what this status would: RateLimitError for 429, ProviderError for others."""

    status_code: Annotated[int, Meta(ge=100, le=999)]
    headers: dict[str, str] = field(default_factory=dict)
    body: str = ""

    async def apply(self, call: FaultedCall) -> NoReturn:
        message = error_message(self.body.encode("utf-8", "replace"), "error", "message")
        raise error_of_status(
            self.status_code,
            headers=self.headers,
            body=self.body,
            message=message or "no body",
            now=call.clock.utc_now(),
        ).attribute(call.provider)


_CONTEXT_LENGTH_EXCEEDED = HttpError(
    400,
    body='{"error": {"message": "This model\'s maximum context length was exceeded. Please reduce the length of the '
    'messages.", "type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded"}}',
)


class ContextOverflow(Fault, frozen=True, tag="context_overflow"):
    """Raises the ProviderError of a 400 whose body has the code `context_length_exceeded`."""

    @property
    def body(self) -> str:
        """The body of the answer, as OpenAI words it."""
        return _CONTEXT_LENGTH_EXCEEDED.body

    async def apply(self, call: FaultedCall) -> NoReturn:
        await _CONTEXT_LENGTH_EXCEEDED.apply(call)


_HEADER_TEXT = Meta(pattern=r"^[!-~]([ -~]*[!-~])?\Z", description="plain ASCII, as a header may have: text/plain")


class WrongContentType(Fault, frozen=True, tag="wrong_content_type"):
    """Raises the MalformedResponseError of an answer that came as `content_type`: ASCII without control characters."""

    content_type: Annotated[str, _HEADER_TEXT] = "text/html; charset=utf-8"

    async def apply(self, call: FaultedCall) -> NoReturn:
        expected = "an event stream" if call.request.stream else "JSON"
        raise MalformedResponseError(
            f"the answer came as {self.content_type!r}, not as {expected}", provider=call.provider
        )
