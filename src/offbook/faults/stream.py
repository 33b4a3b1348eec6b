"""Faults of a stream: it breaks off, stalls, or arrives slowly."""

from collections.abc import AsyncIterator
from typing import Annotated, Literal

from msgspec import Meta, field

from offbook.errors import MalformedResponseError, ProviderConnectionError, ProviderError, ProviderTimeoutError
from offbook.faults.fault import Fault, FaultedCall
from offbook.messages import Reply, Response, StreamedReply, StreamEnd, StreamEvent, WholeReply

TruncateEnding = Literal["ConnectionError", "TimeoutError", "clean", "cut", "error_event", "malformed"]


class StreamTruncate(Fault, frozen=True, tag="stream_truncate"):
    """Yields `after_chunks` events, then ends: with a broken connection, silence, a clean EOF, one in the middle of
    the body (`cut`), an error event or something that its protocol does not know."""

    after_chunks: Annotated[int, Meta(ge=0)] = 0
    ending: TruncateEnding = field(name="raise", default="ConnectionError")

    async def apply(self, call: FaultedCall) -> Reply:
        clean = await call.clean()
        return StreamedReply(self._events(call, clean), source=clean)

    async def _events(self, call: FaultedCall, clean: Reply) -> AsyncIterator[StreamEvent]:
        left = self.after_chunks
        try:
            async for event in clean:
                if left <= 0 or isinstance(event, StreamEnd):
                    break
                left -= 1
                yield event
        finally:
            await clean.aclose()
        raise self._error(call.provider)

    def _error(self, provider: str) -> ProviderError:
        told = f"after {self.after_chunks} chunks"
        match self.ending:
            case "TimeoutError":
                return ProviderTimeoutError(f"the stream fell silent {told}", provider=provider)
            case "clean":
                return ProviderConnectionError(f"the stream ended before its last event, {told}", provider=provider)
            case "cut":
                return ProviderConnectionError(
                    f"the connection was closed in the middle of the body, {told}", provider=provider
                )
            case "error_event":
                return ProviderError(f"error inside the stream, {told}", provider=provider)
            case "malformed":
                return MalformedResponseError(f"unreadable bytes inside the stream, {told}", provider=provider)
            case "ConnectionError":
                return ProviderConnectionError(f"the connection broke {told}", provider=provider)


class StreamStall(Fault, frozen=True, tag="stream_stall"):
    """Yields `after_chunks` events (or all but the last), is silent for `for_ms`, and goes on if anybody listens."""

    after_chunks: Annotated[int, Meta(ge=0)] = 0
    for_ms: Annotated[float, Meta(ge=0)] = 60_000.0

    async def apply(self, call: FaultedCall) -> Reply:
        clean = await call.clean()
        return StreamedReply(self._events(call, clean), source=clean)

    async def _events(self, call: FaultedCall, clean: Reply) -> AsyncIterator[StreamEvent]:
        left = self.after_chunks
        try:
            async for event in clean:
                if left == 0 or (left > 0 and isinstance(event, StreamEnd)):
                    await call.clock.sleep_s(self.for_ms / 1000.0)
                left -= 1
                yield event
        finally:
            await clean.aclose()


class SlowDrip(Fault, frozen=True, tag="slow_drip"):
    """Waits `every_ms` before each event of a stream, its end too. An answer that is not streamed comes as late as if
    it were, word by word."""

    every_ms: Annotated[float, Meta(ge=0)] = 100.0

    async def apply(self, call: FaultedCall) -> Reply:
        clean = await call.clean()
        events = self._slowly(call, clean) if call.request.stream else self._late(call, clean)
        return StreamedReply(events, source=clean)

    async def _slowly(self, call: FaultedCall, clean: Reply) -> AsyncIterator[StreamEvent]:
        try:
            async for event in clean:
                await call.clock.sleep_s(self.every_ms / 1000.0)
                yield event
        finally:
            await clean.aclose()

    async def _late(self, call: FaultedCall, clean: Reply) -> AsyncIterator[StreamEvent]:
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
