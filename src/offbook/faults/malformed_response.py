"""The fault of an answer that cannot be parsed."""

from typing import NoReturn

from offbook.codecs.openai_chat import OpenAIChatCodec
from offbook.errors import MalformedResponseError
from offbook.faults.fault import Fault, StruckCall


class MalformedResponse(Fault, frozen=True, tag="malformed_response"):
    """Sends `raw` through the real codec, whose parse error surfaces; it raises also what that codec could read."""

    raw: str = ""

    async def strike(self, call: StruckCall) -> NoReturn:
        try:
            OpenAIChatCodec.decode_response(self.raw.encode("utf-8", "replace"))
        except MalformedResponseError as error:
            error.attribute(call.provider)
            raise
        raise MalformedResponseError("the answer is declared malformed", provider=call.provider, raw=self.raw)
