"""Faults of HTTP: the connection fails, the answer is late, the status is an error, or the content type is wrong."""

import re
from typing import Annotated, ClassVar, NoReturn, Self

from msgspec import Meta, field

from offbook.codecs.base import error_message, error_of_status
from offbook.errors import InputError, ProviderTimeoutError
from offbook.faults.fault import (
    INJECTED_ERROR,
    UNANSWERED_MS,
    Fault,
    FaultedCall,
    FaultTrait,
    FaultVariant,
    Milliseconds,
    add_mark,
)
from offbook.faults.named_errors import connect_error
from offbook.messages import Reply


class ConnectionReset(Fault, frozen=True, tag="connection_reset"):
    """Raises a ProviderConnectionError at once. For code that has loaded httpx, it is an httpx.ConnectError as well."""

    traits: ClassVar[frozenset[FaultTrait]] = frozenset({"loses_answer"})

    @classmethod
    def variants(cls) -> tuple[FaultVariant[Self], ...]:
        return (FaultVariant("connection_reset", cls(), is_persistent=True),)

    async def apply(self, call: FaultedCall) -> NoReturn:
        raise connect_error("connection reset", provider=call.provider)


class Timeout(Fault, frozen=True, tag="timeout"):
    """Waits `after_ms`, then raises a ProviderTimeoutError."""

    traits: ClassVar[frozenset[FaultTrait]] = frozenset({"loses_answer", "holds_back"})

    after_ms: Milliseconds = 0.0

    @classmethod
    def variants(cls) -> tuple[FaultVariant[Self], ...]:
        return (FaultVariant("timeout", cls(after_ms=UNANSWERED_MS), is_persistent=True),)

    async def apply(self, call: FaultedCall) -> NoReturn:
        await call.clock.sleep_s(self.after_ms / 1000.0)
        raise ProviderTimeoutError(f"no answer within {self.after_ms:g} ms", provider=call.provider)


LATE_MS = 120_000.0
"""The delay of a variant: longer than any sensible agent's deadline."""

LATE_OVER_HTTP_MS = 2_000.0
"""The delay over HTTP, in real time, which the exploration has to wait for."""


class Slow(Fault, frozen=True, tag="slow"):
    """Waits `after_ms`, then answers as without the fault."""

    traits: ClassVar[frozenset[FaultTrait]] = frozenset({"holds_back"})

    after_ms: Milliseconds = LATE_MS

    @classmethod
    def variants(cls) -> tuple[FaultVariant[Self], ...]:
        return (FaultVariant("slow", cls(LATE_MS), is_persistent=True, http_fault=cls(LATE_OVER_HTTP_MS)),)

    async def apply(self, call: FaultedCall) -> Reply:
        await call.clock.sleep_s(self.after_ms / 1000.0)
        return await call.clean()


_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"([!-~\xa0-\xff]([ -~\xa0-\xff]*[!-~\xa0-\xff])?)?")


_RETRY_AFTER = {"retry-after": "3"}
"""Longer than the first pause of most agents that do not read it, and short for programs that wait in real time."""


HOPELESS_STATUSES = frozenset((400, 401, 403, 404, 422))
"""Those that another try does not change."""


class HttpError(Fault, frozen=True, tag="http_error"):
    """Raises the error of this status: RateLimitError for 429, ProviderError for others.

    In a plan it is one of 400 to 599, or of 200 to 399 with `body` or `headers`: a page or a redirect instead of an
    answer.
    """

    status_code: Annotated[int, Meta(ge=100, le=999)]
    headers: dict[str, str] = field(default_factory=dict)
    body: str = ""

    @classmethod
    def variants(cls) -> tuple[FaultVariant[Self], ...]:
        return (
            FaultVariant("http_error 500", cls(500), is_persistent=True),
            FaultVariant(
                "http_error 429",
                cls(429, headers=dict(_RETRY_AFTER)),
                is_persistent=True,
            ),
            FaultVariant("http_error 400", cls(400), is_persistent=True),
            FaultVariant("http_error 401", cls(401), is_persistent=True),
            FaultVariant("http_error 404", cls(404), is_persistent=True),
            FaultVariant("http_error 503", cls(503), is_persistent=True, is_spread=True),
            FaultVariant("http_error 403", cls(403), is_persistent=True, is_spread=True),
            FaultVariant(
                "http_error 503 retry-after",
                cls(503, headers=dict(_RETRY_AFTER)),
                is_persistent=True,
                is_spread=True,
            ),
            FaultVariant("http_error 422", cls(422), is_persistent=True, is_spread=True),
        )

    def check(self) -> None:
        is_other_page = 200 <= self.status_code <= 399 and (self.body or self.headers)
        if not (400 <= self.status_code <= 599 or is_other_page):
            reason = f"expected the status of an error, 400 to 599, got {self.status_code}"
            raise InputError(reason, place="status_code")
        for name, value in self.headers.items():
            if not _HEADER_NAME.fullmatch(name):
                raise InputError(f"{name!r} is not the name of a header", place="headers")
            if not _HEADER_VALUE.fullmatch(value):
                raise InputError(
                    f"{value!r} cannot be in a header: it is not a single line of Latin-1", place=f"headers.{name}"
                )

    def said(self, mark: str) -> str:
        """Return the body, or the message of an error without one, on every face."""
        return add_mark(self.body or INJECTED_ERROR, mark)

    async def apply(self, call: FaultedCall) -> NoReturn:
        text = self.said(call.mark)
        raise error_of_status(
            self.status_code,
            headers=self.headers,
            body=text if self.body else "",
            message=error_message(text.encode("utf-8", "replace"), "error", "message"),
            now=call.clock.utc_now(),
        ).attribute(call.provider)


_CONTEXT_LENGTH_EXCEEDED = HttpError(
    400,
    body='{"error": {"message": "This model\'s maximum context length was exceeded. Please reduce the length of the '
    'messages.", "type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded"}}',
)


class ContextOverflow(Fault, frozen=True, tag="context_overflow"):
    """Raises the ProviderError of a 400 whose body has the code `context_length_exceeded`."""

    traits: ClassVar[frozenset[FaultTrait]] = frozenset({"wants_less"})
    message: ClassVar[str] = "prompt is too long: the maximum context length was exceeded"
    """The error in protocols other than OpenAI's."""

    @classmethod
    def variants(cls) -> tuple[FaultVariant[Self], ...]:
        return (FaultVariant("context_overflow", cls(), is_persistent=True),)

    @property
    def body(self) -> str:
        """The response body, in OpenAI's words."""
        return _CONTEXT_LENGTH_EXCEEDED.body

    @property
    def status_code(self) -> int:
        """The HTTP status."""
        return _CONTEXT_LENGTH_EXCEEDED.status_code

    async def apply(self, call: FaultedCall) -> NoReturn:
        await _CONTEXT_LENGTH_EXCEEDED.apply(call)


_HEADER_TEXT = Meta(pattern=r"^[!-~]([ -~]*[!-~])?\Z", description="plain ASCII, as a header may have: text/plain")


class WrongContentType(Fault, frozen=True, tag="wrong_content_type"):
    """Answers as without the fault; over HTTP, with this `content_type`: ASCII without control characters."""

    content_type: Annotated[str, _HEADER_TEXT] = "text/html; charset=utf-8"

    @classmethod
    def variants(cls) -> tuple[FaultVariant[Self], ...]:
        return (FaultVariant("wrong_content_type", cls(), http_only=True),)

    async def apply(self, call: FaultedCall) -> Reply:
        return await call.clean()
