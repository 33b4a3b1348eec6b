"""Telling how a reply ended, whoever reads it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

from understudy.errors import ProviderConnectionError
from understudy.messages import Reply, Response, StreamedReply, StreamEnd, StreamEvent, WholeReply


async def watched(reply: Reply, ended: Callable[[Response | BaseException], None]) -> Reply:
    """The same reply, which calls `ended` once: with its response, or with what broke it.

    A reader that stops early breaks it with a GeneratorExit or CancelledError.
    """
    if isinstance(reply, WholeReply):
        ended(await reply.collect())
        return reply
    return StreamedReply(_watch(reply, ended), source=reply)


async def _watch(reply: Reply, ended: Callable[[Response | BaseException], None]) -> AsyncIterator[StreamEvent]:
    outcome: Response | BaseException = ProviderConnectionError("the stream ended before its last event")
    try:
        async for event in reply:
            if isinstance(event, StreamEnd):
                outcome = event.response
            yield event
    except BaseException as error:
        if not isinstance(outcome, Response):
            outcome = error
        raise
    finally:
        ended(outcome)
        await reply.aclose()
