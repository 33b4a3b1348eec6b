"""The transport of httpx that answers instead of asking."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import httpx

from understudy.wire.answering import Answering
from understudy.wire.delivery import Delivery, Raised
from understudy.wire.http_call import HttpCall

_RAISED: Raised = {"cut": httpx.RemoteProtocolError, "reset": httpx.ReadError, "timeout": httpx.ReadTimeout}


class HttpxTransport(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """Passes the requests of httpx clients to `answering`, and raises what httpx raises over a socket."""

    def __init__(self, answering: Answering) -> None:
        self._answering = answering

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        delivery = self._deliver(request, request.read())
        return httpx.Response(delivery.open(), headers=delivery.headers, stream=_Body(delivery))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        delivery = self._deliver(request, await request.aread())
        return httpx.Response(await delivery.open_async(), headers=delivery.headers, stream=_Body(delivery))

    def close(self) -> None:
        self._answering.close()

    async def aclose(self) -> None:
        self._answering.close()

    def _deliver(self, request: httpx.Request, body: bytes) -> Delivery:
        url, timeouts = request.url, request.extensions.get("timeout", {})
        call = HttpCall(request.method, url.path, url.query.decode("latin-1"), dict(request.headers), body)
        return self._answering.deliver(call, read_timeout_s=timeouts.get("read"), raised=_RAISED)


class _Body(httpx.SyncByteStream, httpx.AsyncByteStream):
    def __init__(self, delivery: Delivery) -> None:
        self._delivery = delivery

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._delivery)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return aiter(self._delivery)
