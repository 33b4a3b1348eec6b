"""A provider that is not made before it is needed."""

from __future__ import annotations

from collections.abc import Callable

from offbook.messages import Reply, Request
from offbook.providers.provider import Provider


class LateProvider(Provider):
    """Made by `make` when it is first asked: who asks nothing needs neither a key nor a recording."""

    def __init__(self, make: Callable[[], Provider], *, name: str) -> None:
        self.name = name
        self._make = make
        self._made: Provider | None = None

    async def send(self, request: Request) -> Reply:
        if self._made is None:
            self._made = self._make()
        return await self._made.send(request)

    async def close(self) -> None:
        if self._made is not None:
            await self._made.close()
