"""The transport of httpx2 that answers instead of asking."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import httpx2

from understudy.wire.answering import Answering
from understudy.wire.delivery import Delivery, Raised
from understudy.wire.http_call import HttpCall

_RAISED: Raised = {"cut": httpx2.RemoteProtocolError, "reset": httpx2.ReadError, "timeout": httpx2.ReadTimeout}


class WireTransport(httpx2.BaseTransport, httpx2.AsyncBaseTransport):
    """Passes the requests of httpx2 clients to `answering`, and raises what httpx2 raises over a socket."""

    def __init__(self, answering: Answering) -> None:
        self._answering = answering

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        delivery = self._deliver(request, request.read())
        return httpx2.Response(delivery.open(), headers=delivery.headers, stream=_Body(delivery))

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        delivery = self._deliver(request, await request.aread())
        return httpx2.Response(await delivery.open_async(), headers=delivery.headers, stream=_Body(delivery))

    def close(self) -> None:
        self._answering.close()

    async def aclose(self) -> None:
        self._answering.close()

    def _deliver(self, request: httpx2.Request, body: bytes) -> Delivery:
        url, timeouts = request.url, request.extensions.get("timeout", {})
        call = HttpCall(request.method, url.path, url.query.decode("latin-1"), dict(request.headers), body)
        return self._answering.deliver(call, read_timeout_s=timeouts.get("read"), raised=_RAISED)


class _Body(httpx2.SyncByteStream, httpx2.AsyncByteStream):
    def __init__(self, delivery: Delivery) -> None:
        self._delivery = delivery

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._delivery)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return aiter(self._delivery)
