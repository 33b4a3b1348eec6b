"""The fault of an answer that says it is something else."""

from typing import Annotated, NoReturn

from msgspec import Meta

from offbook.errors import MalformedResponseError
from offbook.faults.fault import Fault, StruckCall

_HEADER_TEXT = Meta(pattern=r"^[!-~]([ -~]*[!-~])?\Z", description="plain ASCII, as a header may have: text/plain")


class WrongContentType(Fault, frozen=True, tag="wrong_content_type"):
    """Raises the MalformedResponseError of an answer that came as `content_type`: ASCII without control characters."""

    content_type: Annotated[str, _HEADER_TEXT] = "text/html; charset=utf-8"

    async def strike(self, call: StruckCall) -> NoReturn:
        expected = "an event stream" if call.request.stream else "JSON"
        raise MalformedResponseError(
            f"the answer came as {self.content_type!r}, not as {expected}", provider=call.provider
        )
