"""The models themselves, asked where a run makes a request that was never recorded."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from offbook.messages import Reply, Request, WholeReply
from offbook.providers.provider import Provider


class LateSession(Provider):
    """Opens what `open` gives for each request, asks it, and closes it: no run leaves a connection to another.

    Nothing is opened, and no key is needed, before something is asked.
    """

    name = "live"

    def __init__(self, open: Callable[[], AbstractAsyncContextManager[Provider]]) -> None:
        self._open = open

    async def send(self, request: Request) -> Reply:
        async with self._open() as provider:
            reply = await provider.send(request)
            return WholeReply(await reply.collect())
