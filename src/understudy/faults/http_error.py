"""The fault of an HTTP error status."""

from typing import NoReturn

from msgspec import field

from understudy.codecs.status import error_of_status
from understudy.faults.fault import Fault, StruckCall


class HttpError(Fault, frozen=True, tag="http_error"):
    """Raises what this status would: RateLimitError for 429, ProviderError for others."""

    status_code: int
    headers: dict[str, str] = field(default_factory=dict)
    body: str = ""

    async def strike(self, call: StruckCall) -> NoReturn:
        error = error_of_status(
            self.status_code,
            headers=self.headers,
            body=self.body,
            message=self.body or "no body",
            now=call.clock.utc_now(),
        )
        error.provider = call.provider
        raise error
