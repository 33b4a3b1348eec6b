"""Options of an exploration: what is tried, how long a run may take, and what answers an unrecorded request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from offbook.explore.variants import FaultVariant
from offbook.explore.verdict import Invariant
from offbook.messages import Reply, Request, Response, WholeReply
from offbook.providers.provider import Provider


class ExploreOptions(Struct, frozen=True, kw_only=True):
    """What to explore: which faults, whether also in pairs, how many cases at most, and what must always hold."""

    variants: Sequence[FaultVariant]
    pairs: bool = False
    budget: int | None = None
    invariants: Sequence[Invariant] = ()


class Deadlines(Struct, frozen=True):
    """How long a run may take: `virtual_s` in virtual time, `real_s` in real time."""

    virtual_s: float = 3600.0
    real_s: float = 30.0


DEFAULT_DEADLINES = Deadlines()

OnDivergence = Literal["stop", "default", "live"]


class Divergence(Struct, frozen=True):
    """What answers a request that was never recorded.

    `stop` ends the run, `default` answers with `default_response`, `live` asks a provider.
    """

    policy: OnDivergence = "stop"
    default_response: str = "Mock response"
    live: Provider | None = None

    async def answer(self, request: Request) -> Reply:
        """Return the answer to an unrecorded request, where the run does not stop."""
        if self.policy == "live" and self.live is not None:
            return await self.live.send(request)
        return WholeReply(Response(self.default_response, request.model))


STOP_ON_DIVERGENCE = Divergence()
