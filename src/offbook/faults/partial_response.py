"""The fault of an answer that was cut off by its length."""

from collections.abc import AsyncIterator

from msgspec.structs import replace

from offbook.faults.fault import Fault, StruckCall
from offbook.messages import Reply, Response, StreamedReply, StreamEnd, StreamEvent


class PartialResponse(Fault, frozen=True, tag="partial_response"):
    """Gives the content, but counts no completion tokens and ends by `length`."""

    async def strike(self, call: StruckCall) -> Reply:
        clean = await call.clean()
        return StreamedReply(_events(clean), source=clean)


async def _events(clean: Reply) -> AsyncIterator[StreamEvent]:
    try:
        async for event in clean:
            yield StreamEnd(_cut_off(event.response)) if isinstance(event, StreamEnd) else event
    finally:
        await clean.aclose()


def _cut_off(response: Response) -> Response:
    prompt = response.usage.prompt_tokens
    usage = replace(response.usage, completion_tokens=0, total_tokens=prompt, reasoning_tokens=0)
    return replace(response, usage=usage, finish_reason="length")
