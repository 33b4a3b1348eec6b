"""The fault of an answer that was withheld."""

from offbook.faults.fault import Fault, StruckCall
from offbook.messages import Reply, Response, WholeReply


class ContentFilter(Fault, frozen=True, tag="content_filter"):
    """Answers with nothing, and ends by `content_filter`."""

    async def strike(self, call: StruckCall) -> Reply:
        return WholeReply(Response(model=call.request.model, provider=call.provider, finish_reason="content_filter"))
