"""The fault of an answer that comes drop by drop."""

from collections.abc import AsyncIterator
from typing import Annotated

from msgspec import Meta

from offbook.faults.fault import Fault, StruckCall
from offbook.messages import Reply, Response, StreamedReply, StreamEvent, WholeReply


class SlowDrip(Fault, frozen=True, tag="slow_drip"):
    """Waits `every_ms` before each event of a stream, its end too. An answer that is not streamed comes as late as if
    it were, word by word."""

    every_ms: Annotated[float, Meta(ge=0)] = 100.0

    async def strike(self, call: StruckCall) -> Reply:
        clean = await call.clean()
        events = self._slowly(call, clean) if call.request.stream else self._late(call, clean)
        return StreamedReply(events, source=clean)

    async def _slowly(self, call: StruckCall, clean: Reply) -> AsyncIterator[StreamEvent]:
        try:
            async for event in clean:
                await call.clock.sleep_s(self.every_ms / 1000.0)
                yield event
        finally:
            await clean.aclose()

    async def _late(self, call: StruckCall, clean: Reply) -> AsyncIterator[StreamEvent]:
        try:
            response = await clean.collect()
        finally:
            await clean.aclose()
        await call.clock.sleep_s(self.every_ms / 1000.0 * _count_events(response))
        async for event in WholeReply(response):
            yield event


def _count_events(response: Response) -> int:
    """How many events the response would be word by word, with its end."""
    return bool(response.reasoning) + len(response.content.split()) + len(response.tool_calls) + 1
