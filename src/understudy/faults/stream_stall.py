"""The fault of a stream that falls silent for a while."""

from collections.abc import AsyncIterator
from typing import Annotated

from msgspec import Meta

from understudy.faults.fault import Fault, StruckCall
from understudy.messages import Reply, StreamedReply, StreamEvent


class StreamStall(Fault, frozen=True, tag="stream_stall"):
    """Yields `after_chunks` events, is silent for `for_ms`, and goes on if anybody still listens."""

    after_chunks: Annotated[int, Meta(ge=0)] = 0
    for_ms: Annotated[float, Meta(ge=0)] = 60_000.0

    async def strike(self, call: StruckCall) -> Reply:
        clean = await call.clean()
        return StreamedReply(self._events(call, clean), source=clean)

    async def _events(self, call: StruckCall, clean: Reply) -> AsyncIterator[StreamEvent]:
        count = 0
        try:
            async for event in clean:
                if count == self.after_chunks:
                    await call.clock.sleep_s(self.for_ms / 1000.0)
                count += 1
                yield event
        finally:
            await clean.aclose()
