"""The fault of an HTTP error status."""

from typing import Annotated, NoReturn

from msgspec import Meta, field

from offbook.codecs.parsing import error_message
from offbook.codecs.status import error_of_status
from offbook.faults.fault import Fault, StruckCall


class HttpError(Fault, frozen=True, tag="http_error"):
    """Raises what this status would: RateLimitError for 429, ProviderError for others."""

    status_code: Annotated[int, Meta(ge=100, le=999)]
    headers: dict[str, str] = field(default_factory=dict)
    body: str = ""

    async def strike(self, call: StruckCall) -> NoReturn:
        message = error_message(self.body.encode("utf-8", "replace"), "error", "message")
        raise error_of_status(
            self.status_code,
            headers=self.headers,
            body=self.body,
            message=message or "no body",
            now=call.clock.utc_now(),
        ).attribute(call.provider)
