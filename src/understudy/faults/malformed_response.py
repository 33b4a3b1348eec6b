"""The fault of an answer that cannot be parsed."""

from understudy.codecs.openai_chat import OpenAIChatCodec
from understudy.faults.fault import Fault, StruckCall
from understudy.messages import Reply, WholeReply


class MalformedResponse(Fault, frozen=True, tag="malformed_response"):
    """Sends `raw` through the real codec, whose parse error surfaces."""

    raw: str = ""

    async def strike(self, call: StruckCall) -> Reply:
        return WholeReply(OpenAIChatCodec.decode_response(self.raw.encode("utf-8", "replace")))
