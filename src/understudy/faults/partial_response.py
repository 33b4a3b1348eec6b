"""The fault of an answer that was cut off by its length."""

from msgspec.structs import replace

from understudy.faults.fault import Fault, StruckCall
from understudy.messages import Reply, WholeReply


class PartialResponse(Fault, frozen=True, tag="partial_response"):
    """Gives the content, but counts no completion tokens and ends by `length`."""

    async def strike(self, call: StruckCall) -> Reply:
        response = await call.clean_response()
        prompt = response.usage.prompt_tokens
        usage = replace(response.usage, completion_tokens=0, total_tokens=prompt, reasoning_tokens=0)
        return WholeReply(replace(response, usage=usage, finish_reason="length"))
