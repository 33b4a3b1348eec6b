"""The fault of a stream that breaks off."""

from collections.abc import AsyncIterator
from typing import Annotated, Literal

from msgspec import Meta, field

from offbook.errors import MalformedResponseError, ProviderConnectionError, ProviderError, ProviderTimeoutError
from offbook.faults.fault import Fault, StruckCall
from offbook.messages import Reply, StreamedReply, StreamEnd, StreamEvent

Ending = Literal["ConnectionError", "TimeoutError", "clean", "cut", "error_event", "malformed"]


class StreamTruncate(Fault, frozen=True, tag="stream_truncate"):
    """Yields `after_chunks` events, then ends: with a broken connection, silence, a clean EOF, one in the middle of
    the body (`cut`), an error event or something that its protocol does not know."""

    after_chunks: Annotated[int, Meta(ge=0)] = 0
    ending: Ending = field(name="raise", default="ConnectionError")

    async def strike(self, call: StruckCall) -> Reply:
        clean = await call.clean()
        return StreamedReply(self._events(call, clean), source=clean)

    async def _events(self, call: StruckCall, clean: Reply) -> AsyncIterator[StreamEvent]:
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
