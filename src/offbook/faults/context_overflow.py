"""The fault of a conversation that is too long for its model."""

from typing import NoReturn

from offbook.faults.fault import Fault, StruckCall
from offbook.faults.http_error import HttpError

_ANSWER = HttpError(
    400,
    body='{"error": {"message": "This model\'s maximum context length was exceeded. Please reduce the length of the '
    'messages.", "type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded"}}',
)


class ContextOverflow(Fault, frozen=True, tag="context_overflow"):
    """Raises the ProviderError of a 400 whose body has the code `context_length_exceeded`."""

    @property
    def body(self) -> str:
        """The body of the answer, as OpenAI words it."""
        return _ANSWER.body

    async def strike(self, call: StruckCall) -> NoReturn:
        await _ANSWER.strike(call)
