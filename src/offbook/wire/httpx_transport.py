"""The httpx transport that a StandIn answers, or that records what the real API answers."""

from __future__ import annotations

from typing import Any, ClassVar

import httpx

from offbook.wire.api import StandIn
from offbook.wire.transport import CapturedBody, DeliveredBody, InProcessTransport


class _DeliveredBody(DeliveredBody, httpx.SyncByteStream, httpx.AsyncByteStream):
    pass


class _CapturedBody(CapturedBody, httpx.SyncByteStream, httpx.AsyncByteStream):
    pass


class HttpxTransport(InProcessTransport, httpx.BaseTransport, httpx.AsyncBaseTransport):
    """Has `stand_in` answer the requests of httpx clients, and raises what httpx raises over a socket.

    Calls that only the real API can answer go through `live` or `live_async`, by default over the network.
    """

    library: ClassVar[Any] = httpx
    delivered_body = _DeliveredBody
    captured_body = _CapturedBody

    def __init__(
        self,
        stand_in: StandIn,
        *,
        live: httpx.BaseTransport | None = None,
        live_async: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        super().__init__(stand_in, live=live, live_async=live_async)
