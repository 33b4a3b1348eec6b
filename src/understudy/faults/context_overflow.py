"""The fault of a conversation that is too long for its model."""

from typing import NoReturn

import orjson

from understudy.codecs.status import error_of_status
from understudy.faults.fault import Fault, StruckCall

MESSAGE = "This model's maximum context length was exceeded. Please reduce the length of the messages."


class ContextOverflow(Fault, frozen=True, tag="context_overflow"):
    """Raises the ProviderError of a 400 whose body has the code `context_length_exceeded`."""

    async def strike(self, call: StruckCall) -> NoReturn:
        told = {"message": MESSAGE, "type": "invalid_request_error", "param": "messages"}
        body = orjson.dumps({"error": told | {"code": "context_length_exceeded"}}).decode()
        error = error_of_status(400, headers={}, body=body, message=MESSAGE, now=call.clock.utc_now())
        error.provider = call.provider
        raise error
