"""Telling how a reply ended, whoever reads it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import TypeAlias

from offbook.errors import ProviderConnectionError
from offbook.messages import Reply, Response, StreamedReply, StreamEnd, StreamEvent, WholeReply

Ended: TypeAlias = Callable[[Response | BaseException], None]


def watched(reply: Reply, ended: Ended) -> Reply:
    """The same reply, which calls `ended` once: with its response, or with what broke it.

    A reader that stops early, or never begins, breaks it with a GeneratorExit or CancelledError. A
    stream that just ends, without its last event, breaks with a ProviderConnectionError. What has
    ended or broken is closed.
    """
    if isinstance(reply, WholeReply):
        ended(reply.response)
        return reply
    return _WatchedReply(reply, ended)


class _WatchedReply(StreamedReply):
    """A stream that is watched from before its first event until it ends or is closed."""

    def __init__(self, reply: Reply, ended: Ended) -> None:
        self._ended = _Once(ended)
        super().__init__(_watch(reply, self._ended), source=reply)

    async def aclose(self) -> None:
        try:
            await super().aclose()
        finally:
            self._ended(GeneratorExit())


class _Once:
    """Passes on the first call of all."""

    def __init__(self, ended: Ended) -> None:
        self._waiting: Ended | None = ended

    def __call__(self, outcome: Response | BaseException) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting(outcome)


async def _watch(reply: Reply, ended: Ended) -> AsyncIterator[StreamEvent]:
    try:
        async for event in reply:
            if isinstance(event, StreamEnd):
                ended(event.response)
                break
            yield event
        else:
            raise ProviderConnectionError("the stream ended before its last event")  # noqa: TRY301 - told like any other
    except BaseException as error:
        ended(error)
        raise
    finally:
        await reply.aclose()
    yield event
