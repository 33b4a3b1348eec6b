"""The transport of httpx that answers instead of asking, or hears what is answered."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import httpx

from offbook.wire.answer import Answer
from offbook.wire.delivery import Delivery, Raised
from offbook.wire.http_call import HttpCall
from offbook.wire.relay import Relay
from offbook.wire.sessions import split_path
from offbook.wire.stand_in import StandIn
from offbook.wire.upstream_headers import forwarded

_RAISED: Raised = {"cut": httpx.RemoteProtocolError, "reset": httpx.ReadError, "timeout": httpx.ReadTimeout}


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
        answer = self._stand_in.answer(_call(request, request.read()))
        if isinstance(answer, Relay):
            response = self._asked(request, answer)
            if not answer.is_struck:
                return response
            response.read()
            answer = answer.left_to_send()
        delivery = _delivery(answer, request)
        return httpx.Response(delivery.open(), headers=delivery.headers, stream=_Body(delivery))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        answer = self._stand_in.answer(_call(request, await request.aread()))
        if isinstance(answer, Relay):
            response = await self._asked_async(request, answer)
            if not answer.is_struck:
                return response
            await response.aread()
            answer = answer.left_to_send()
        delivery = _delivery(answer, request)
        return httpx.Response(await delivery.open_async(), headers=delivery.headers, stream=_Body(delivery))

    def close(self) -> None:
        if self._live is not None:
            self._live.close()
        self._stand_in.close()

    async def aclose(self) -> None:
        if self._live_async is not None:
            await self._live_async.aclose()
        self._stand_in.close()

    def _asked(self, request: httpx.Request, relay: Relay) -> httpx.Response:
        if self._live is None:
            self._live = httpx.HTTPTransport()
        with relay.listening():
            came = self._live.handle_request(_forwarded(request))
        headers = relay.begin(came.status_code, came.headers.raw)
        return httpx.Response(came.status_code, headers=headers, stream=_HeardBody(came, relay))

    async def _asked_async(self, request: httpx.Request, relay: Relay) -> httpx.Response:
        if self._live_async is None:
            self._live_async = httpx.AsyncHTTPTransport()
        with relay.listening():
            came = await self._live_async.handle_async_request(_forwarded(request))
        headers = relay.begin(came.status_code, came.headers.raw)
        return httpx.Response(came.status_code, headers=headers, stream=_HeardBody(came, relay))


class _Body(httpx.SyncByteStream, httpx.AsyncByteStream):
    """The body of an answer of ours."""

    def __init__(self, delivery: Delivery) -> None:
        self._delivery = delivery

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._delivery)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return aiter(self._delivery)


class _HeardBody(httpx.SyncByteStream, httpx.AsyncByteStream):
    """The body of an answer of a real API."""

    def __init__(self, came: httpx.Response, relay: Relay) -> None:
        self._came, self._relay = came, relay

    def __iter__(self) -> Iterator[bytes]:
        assert isinstance(self._came.stream, httpx.SyncByteStream)
        return self._relay.passing(self._came.stream)

    def __aiter__(self) -> AsyncIterator[bytes]:
        assert isinstance(self._came.stream, httpx.AsyncByteStream)
        return self._relay.passing_async(self._came.stream)

    def close(self) -> None:
        self._came.close()
        self._relay.leave()

    async def aclose(self) -> None:
        await self._came.aclose()
        self._relay.leave()


def _call(request: httpx.Request, body: bytes) -> HttpCall:
    url = request.url
    return HttpCall(request.method, url.path, url.query.decode("latin-1"), dict(request.headers), body)


def _delivery(answer: Answer, request: httpx.Request) -> Delivery:
    timeouts = request.extensions.get("timeout", {})
    return Delivery(answer, read_timeout_s=timeouts.get("read"), raised=_RAISED)


def _forwarded(request: httpx.Request) -> httpx.Request:
    """The request without what it says to a stand-in, as the real API is to get it."""
    path = split_path(request.url.raw_path.decode("latin-1"))[1]
    url = request.url.copy_with(raw_path=path.encode("latin-1"))
    headers = forwarded(request.headers.raw)
    return httpx.Request(request.method, url, headers=headers, content=request.content, extensions=request.extensions)
