"""The fault of a stream that falls silent for a while."""

from collections.abc import AsyncIterator
from typing import Annotated

from msgspec import Meta

from offbook.faults.fault import Fault, StruckCall
from offbook.messages import Reply, StreamedReply, StreamEnd, StreamEvent


class StreamStall(Fault, frozen=True, tag="stream_stall"):
    """Yields `after_chunks` events (or all but the last), is silent for `for_ms`, and goes on if anybody listens."""

    after_chunks: Annotated[int, Meta(ge=0)] = 0
    for_ms: Annotated[float, Meta(ge=0)] = 60_000.0

    async def strike(self, call: StruckCall) -> Reply:
        clean = await call.clean()
        return StreamedReply(self._events(call, clean), source=clean)

    async def _events(self, call: StruckCall, clean: Reply) -> AsyncIterator[StreamEvent]:
        left = self.after_chunks
        try:
            async for event in clean:
                if left == 0 or (left > 0 and isinstance(event, StreamEnd)):
                    await call.clock.sleep_s(self.for_ms / 1000.0)
                left -= 1
                yield event
        finally:
            await clean.aclose()
