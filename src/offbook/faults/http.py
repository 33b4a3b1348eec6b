"""Faults of HTTP: the connection fails, the status is an error, or the content type is wrong."""

from typing import Annotated, ClassVar, NoReturn, Self

from msgspec import Meta, field

from offbook.codecs.base import error_message, error_of_status
from offbook.errors import MalformedResponseError, ProviderConnectionError, ProviderTimeoutError
from offbook.faults.fault import UNANSWERED_MS, Fault, FaultedCall, FaultVariant


class ConnectionReset(Fault, frozen=True, tag="connection_reset"):
    """Raises a ProviderConnectionError at once."""

    @classmethod
    def variants(cls) -> tuple[FaultVariant[Self], ...]:
        return (FaultVariant("connection_reset", cls(), is_persistent=True),)

    async def apply(self, call: FaultedCall) -> NoReturn:
        raise ProviderConnectionError("connection reset", provider=call.provider)


class Timeout(Fault, frozen=True, tag="timeout"):
    """Waits `after_ms`, then raises a ProviderTimeoutError."""

    after_ms: Annotated[float, Meta(ge=0)] = 0.0

    @classmethod
    def variants(cls) -> tuple[FaultVariant[Self], ...]:
        return (FaultVariant("timeout", cls(after_ms=UNANSWERED_MS), is_persistent=True),)

    async def apply(self, call: FaultedCall) -> NoReturn:
        await call.clock.sleep_s(self.after_ms / 1000.0)
        raise ProviderTimeoutError(f"no answer within {self.after_ms:g} ms", provider=call.provider)


class HttpError(Fault, frozen=True, tag="http_error"):
    """Raises the error of this status: RateLimitError for 429, ProviderError for others."""

    status_code: Annotated[int, Meta(ge=100, le=999)]
    headers: dict[str, str] = field(default_factory=dict)
    body: str = ""

    @classmethod
    def variants(cls) -> tuple[FaultVariant[Self], ...]:
        return (
            FaultVariant("http_error 500", cls(500), is_persistent=True),
            FaultVariant(
                "http_error 429",
                cls(429, headers={"retry-after": "7"}),
                is_persistent=True,
                http_fault=cls(429, headers={"retry-after": "1"}),
            ),
            FaultVariant("http_error 401", cls(401)),
        )

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

    @classmethod
    def variants(cls) -> tuple[FaultVariant[Self], ...]:
        return (FaultVariant("context_overflow", cls()),)

    @property
    def body(self) -> str:
        """The response body, in OpenAI's words."""
        return _CONTEXT_LENGTH_EXCEEDED.body

    async def apply(self, call: FaultedCall) -> NoReturn:
        await _CONTEXT_LENGTH_EXCEEDED.apply(call)


_HEADER_TEXT = Meta(pattern=r"^[!-~]([ -~]*[!-~])?\Z", description="plain ASCII, as a header may have: text/plain")


class WrongContentType(Fault, frozen=True, tag="wrong_content_type"):
    """Raises the MalformedResponseError of a response with this `content_type`: ASCII without control characters."""

    breaks_response: ClassVar[bool] = True

    content_type: Annotated[str, _HEADER_TEXT] = "text/html; charset=utf-8"

    @classmethod
    def variants(cls) -> tuple[FaultVariant[Self], ...]:
        return (FaultVariant("wrong_content_type", cls(), http_only=True),)

    async def apply(self, call: FaultedCall) -> NoReturn:
        expected = "an event stream" if call.request.stream else "JSON"
        raise MalformedResponseError(
            f"the content type of the answer is {self.content_type!r}, expected {expected}", provider=call.provider
        )
