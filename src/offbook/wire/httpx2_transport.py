"""The httpx2 transport that a StandIn answers, or that records what the real API answers."""

from __future__ import annotations

from typing import Any, ClassVar

import httpx2

from offbook.wire.api import StandIn
from offbook.wire.transport import CapturedBody, DeliveredBody, InProcessTransport


class _DeliveredBody(DeliveredBody, httpx2.SyncByteStream, httpx2.AsyncByteStream):
    pass


class _CapturedBody(CapturedBody, httpx2.SyncByteStream, httpx2.AsyncByteStream):
    pass


class Httpx2Transport(InProcessTransport, httpx2.BaseTransport, httpx2.AsyncBaseTransport):
    """Has `stand_in` answer the requests of httpx2 clients, and raises what httpx2 raises over a socket.

    Calls that only the real API can answer go through `live` or `live_async`, by default over the network.
    """

    library: ClassVar[Any] = httpx2
    delivered_body = _DeliveredBody
    captured_body = _CapturedBody

    def __init__(
        self,
        stand_in: StandIn,
        *,
        live: httpx2.BaseTransport | None = None,
        live_async: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        super().__init__(stand_in, live=live, live_async=live_async)
