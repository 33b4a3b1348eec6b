"""A stream whose first event has come."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable

from offbook.messages import StreamedReply, StreamEvent


async def begun(events: AsyncGenerator[StreamEvent, None]) -> StreamedReply:
    """The reply of `events`, once the first of them has come.

    As they have begun then, they are closed even if the reply is neither read nor closed: the event
    loop sees to it.
    """
    return StreamedReply(_Resumed(await anext(events), events), source=events)


class _Resumed(AsyncIterator[StreamEvent]):
    """Events of which the first was read already, and comes again."""

    def __init__(self, first: StreamEvent, rest: AsyncIterator[StreamEvent]) -> None:
        self._first: StreamEvent | None = first
        self._rest = rest

    def __anext__(self) -> Awaitable[StreamEvent]:
        first, self._first = self._first, None
        return self._rest.__anext__() if first is None else _at_once(first)

    async def aclose(self) -> None:
        self._first = None


async def _at_once(event: StreamEvent) -> StreamEvent:
    return event
