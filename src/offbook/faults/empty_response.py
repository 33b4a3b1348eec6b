"""The fault of an answer that says nothing."""

from offbook.faults.fault import Fault, StruckCall
from offbook.messages import Reply, Response, WholeReply


class EmptyResponse(Fault, frozen=True, tag="empty_response"):
    """Answers with no text and no tool call, and ends by `stop` as if all were well."""

    async def strike(self, call: StruckCall) -> Reply:
        return WholeReply(Response(model=call.request.model, provider=call.provider))
