"""Options of an exploration, and what answers a request that was never recorded."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from offbook.messages import Reply, Request, Response, WholeReply
from offbook.providers.provider import Provider

OnDivergence = Literal["stop", "default", "live"]


class Divergence(Struct, frozen=True):
    """`stop` ends the run there, `default` answers with a text, `live` asks a provider."""

    policy: OnDivergence = "stop"
    default_response: str = "Mock response"
    live: Provider | None = None

    async def answer(self, request: Request) -> Reply:
        """The answer to a new request, where the run is not to stop."""
        if self.policy == "live" and self.live is not None:
            return await self.live.send(request)
        return WholeReply(Response(self.default_response, request.model))


STOP_ON_DIVERGENCE = Divergence()
