"""One streamed call through the gateway, which may break when it has begun already."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator

from offbook.errors import ProviderError, StreamInterruptedError
from offbook.gateway.begun import begun
from offbook.gateway.call import Call
from offbook.messages import (
    Accumulator,
    Reply,
    Response,
    StreamDelta,
    StreamedReply,
    StreamEnd,
    StreamEvent,
    StreamRestart,
)


class StreamedCall(Call):
    """A call whose reply comes event by event. A failure after the first ends the stream, or starts it over."""

    _reply: Reply
    _events: AsyncIterator[StreamEvent]
    _first: StreamEvent | None
    _seen: list[StreamDelta | StreamRestart]

    async def reply(self) -> Reply:
        """The reply to the request, which has begun.

        Raises:
            AllProvidersFailedError: no route gave one.
            DeadlineExceededError: none did in time.
        """
        return await begun(self._stream())

    async def _stream(self) -> AsyncGenerator[StreamEvent, None]:
        try:
            await self._deadline.meet(self._begin)
            try:
                while not isinstance(event := await self._deadline.meet(self._next), StreamEnd):
                    self._seen.append(event)
                    yield event
            finally:
                await self._reply.aclose()
            self._finish(event.response)
        except BaseException as error:
            self._journey.ended(error)
            raise
        yield event

    async def _take(self, reply: Reply) -> None:
        """Take in the reply, as far as is needed to know that it works: to its first event."""
        self._events, self._seen = aiter(reply), []
        self._reply = StreamedReply(self._events, source=reply)
        self._first = await anext(self._events)

    async def _next(self) -> StreamEvent:
        """The next event, which is a StreamRestart if the stream broke and starts over."""
        event, self._first = self._first, None
        if event is not None:
            return event
        try:
            return await anext(self._events)
        except ProviderError as error:
            await self._restart(error)
            return StreamRestart(str(error))

    async def _restart(self, error: ProviderError) -> None:
        """Begin again after the stream broke, if that is allowed."""
        if not self._rules.restart_streams:
            self._journey.attempt_ended(error)
            raise StreamInterruptedError(error, partial=self._partial()) from error
        await self._advance(error)
        await self._begin()

    def _partial(self) -> Response:
        """What had come when the stream broke."""
        joined = Accumulator()
        for event in self._seen:
            if isinstance(event, StreamRestart):
                joined = Accumulator()
            else:
                joined.add(event)
        return joined.join(Response(model=self._request.model, provider=self._route.provider.name, finish_reason=None))
