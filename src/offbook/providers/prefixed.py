"""A provider whose calls are told apart from those of others that share it."""

from msgspec.structs import replace

from offbook.messages import Reply, Request
from offbook.providers.provider import Provider


class PrefixedProvider(Provider):
    """Passes requests on with `prefix` before their step's id, so that each is recorded under a key of its own.

    The provider behind it is shared, and stays open when this is closed.
    """

    def __init__(self, provider: Provider, prefix: str) -> None:
        self.name = provider.name
        self._provider, self._prefix = provider, prefix

    async def send(self, request: Request) -> Reply:
        return await self._provider.send(replace(request, step_id=f"{self._prefix}{request.step_id or ''}"))
