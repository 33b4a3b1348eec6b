"""The httpx transport that is answered by a StandIn, or records what the real API answers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import httpx

from offbook.wire.api import StandIn
from offbook.wire.backend import split_session_path
from offbook.wire.proxy.forwarding import InProcessForwarder
from offbook.wire.proxy.upstream import upstream_request_headers
from offbook.wire.request import HttpRequest
from offbook.wire.response import HttpResponse
from offbook.wire.transport.delivery import Delivery, ErrorTypes

_ERROR_TYPES: ErrorTypes = {"cut": httpx.RemoteProtocolError, "reset": httpx.ReadError, "timeout": httpx.ReadTimeout}


class HttpxTransport(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """Has the requests of httpx clients answered by `stand_in`, and raises what httpx raises over a socket.

    What only the real API can tell is asked through `live` or `live_async`, by default over the network.
    """

    def __init__(
        self,
        stand_in: StandIn,
        *,
        live: httpx.BaseTransport | None = None,
        live_async: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._stand_in, self._live, self._live_async = stand_in, live, live_async

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        answer = self._stand_in.answer(_http_request(request, request.read()))
        if isinstance(answer, InProcessForwarder):
            response = self._asked(request, answer)
            if not answer.has_fault:
                return response
            response.read()
            answer = answer.replacement_response()
        delivery = _delivery(answer, request)
        return httpx.Response(delivery.open(), headers=delivery.headers, stream=_DeliveredBody(delivery))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        answer = self._stand_in.answer(_http_request(request, await request.aread()))
        if isinstance(answer, InProcessForwarder):
            response = await self._ask_async(request, answer)
            if not answer.has_fault:
                return response
            await response.aread()
            answer = answer.replacement_response()
        delivery = _delivery(answer, request)
        return httpx.Response(await delivery.open_async(), headers=delivery.headers, stream=_DeliveredBody(delivery))

    def close(self) -> None:
        if self._live is not None:
            self._live.close()
        self._stand_in.close()

    async def aclose(self) -> None:
        if self._live_async is not None:
            await self._live_async.aclose()
        self._stand_in.close()

    def _asked(self, request: httpx.Request, relay: InProcessForwarder) -> httpx.Response:
        if self._live is None:
            self._live = httpx.HTTPTransport()
        with relay.listening():
            came = self._live.handle_request(_upstream_request(request))
        headers = relay.begin(came.status_code, came.headers.raw)
        return httpx.Response(came.status_code, headers=headers, stream=_CapturedBody(came, relay))

    async def _ask_async(self, request: httpx.Request, relay: InProcessForwarder) -> httpx.Response:
        if self._live_async is None:
            self._live_async = httpx.AsyncHTTPTransport()
        with relay.listening():
            came = await self._live_async.handle_async_request(_upstream_request(request))
        headers = relay.begin(came.status_code, came.headers.raw)
        return httpx.Response(came.status_code, headers=headers, stream=_CapturedBody(came, relay))


class _DeliveredBody(httpx.SyncByteStream, httpx.AsyncByteStream):
    """The body of an answer of ours."""

    def __init__(self, delivery: Delivery) -> None:
        self._delivery = delivery

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._delivery)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return aiter(self._delivery)


class _CapturedBody(httpx.SyncByteStream, httpx.AsyncByteStream):
    """The body of an answer of a real API."""

    def __init__(self, came: httpx.Response, relay: InProcessForwarder) -> None:
        self._came, self._relay = came, relay

    def __iter__(self) -> Iterator[bytes]:
        assert isinstance(self._came.stream, httpx.SyncByteStream)
        return self._relay.forwarded_pieces(self._came.stream)

    def __aiter__(self) -> AsyncIterator[bytes]:
        assert isinstance(self._came.stream, httpx.AsyncByteStream)
        return self._relay.forwarded_pieces_async(self._came.stream)

    def close(self) -> None:
        self._came.close()
        self._relay.leave()

    async def aclose(self) -> None:
        await self._came.aclose()
        self._relay.leave()


def _http_request(request: httpx.Request, body: bytes) -> HttpRequest:
    url = request.url
    return HttpRequest(request.method, url.path, url.query.decode("latin-1"), dict(request.headers), body)


def _delivery(answer: HttpResponse, request: httpx.Request) -> Delivery:
    timeouts = request.extensions.get("timeout", {})
    return Delivery(answer, read_timeout_s=timeouts.get("read"), raised=_ERROR_TYPES)


def _upstream_request(request: httpx.Request) -> httpx.Request:
    """The request without what it says to a stand-in, as the real API is to get it."""
    path = split_session_path(request.url.raw_path.decode("latin-1"))[1]
    url = request.url.copy_with(raw_path=path.encode("latin-1"))
    headers = upstream_request_headers(request.headers.raw)
    return httpx.Request(request.method, url, headers=headers, content=request.content, extensions=request.extensions)
