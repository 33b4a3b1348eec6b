"""The transport of in-process HTTP clients: delivers answers on time, within read timeouts, with broken endings."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from math import inf, isfinite
from typing import Any, ClassVar, Literal, TypeAlias

from offbook.clock import SYSTEM_CLOCK
from offbook.virtual_time import VirtualTimeLoop
from offbook.wire.api import InProcessCall, InProcessClients
from offbook.wire.backend import split_session_path
from offbook.wire.proxy.forwarding import InProcessForwarder
from offbook.wire.proxy.upstream import upstream_request_headers
from offbook.wire.request import HttpRequest

ConnectionFailure = Literal["cut", "reset", "timeout"]
ErrorTypes: TypeAlias = Mapping[ConnectionFailure, Callable[[str], Exception]]
"""A client library's errors for a `cut` or `reset` connection, and for a read timeout."""

DeliveryStep: TypeAlias = float | bytes
"""Seconds to wait, or bytes that have arrived."""

_ERROR_TEXTS: dict[ConnectionFailure, str] = {
    "cut": "peer closed connection without sending complete message body (incomplete chunked read)",
    "reset": "[Errno 104] Connection reset by peer",
    "timeout": "timed out",
}


class Delivery:
    """Delivers the answer to a call. Times count from its creation.

    Every read waits until a frame is due, but at most `read_timeout_s`; None waits forever. A failing read raises one
    of `error_types`. The `call` is told whether the answer arrived.
    """

    def __init__(self, call: InProcessCall, *, read_timeout_s: float | None, error_types: ErrorTypes) -> None:
        self.headers = call.answer.sent_headers
        self._call, self._answer = call, call.answer
        self._read_timeout_s, self._error_types = read_timeout_s, error_types
        self._started_s = SYSTEM_CLOCK.monotonic_s()

    def open(self) -> int:
        """Wait for the head of the answer in this thread, and return its status."""
        self._call.start_blocking()
        for wait_s in self._until_head():
            _sleep(wait_s)
        return self._status

    async def open_async(self) -> int:
        """Wait for the head of the answer on the running loop, and return its status. An order fault may hold it."""
        if self._call.is_held:
            await self._held_head()
        else:
            await self._call.in_order(self._wait_for_head)
        return self._status

    async def _held_head(self) -> None:
        limit = asyncio.timeout(self._read_timeout_s)
        try:
            async with limit:
                await self._call.in_order(self._wait_for_head)
        except TimeoutError:
            if not limit.expired():
                raise
            raise self._error("timeout") from None

    async def _wait_for_head(self) -> None:
        for wait_s in self._until_head():
            await _sleep_async(wait_s)

    def __iter__(self) -> Iterator[bytes]:
        for step in self._body():
            if isinstance(step, bytes):
                yield step
            else:
                _sleep(step)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for step in self._body():
            if isinstance(step, bytes):
                yield step
            else:
                await _sleep_async(step)

    def close(self) -> None:
        """Called when the client reads no further."""
        self._call.left()

    @property
    def _status(self) -> int:
        assert self._answer.status is not None
        return self._answer.status

    def _until_head(self) -> Iterator[float]:
        """Yield the waits for the head: a whole answer's frame, or the end if it has no status. A stream has none."""
        answer = self._answer
        if answer.status is None:
            yield from self._end()
        elif answer.is_single_frame and answer.frames:
            yield from self._until(answer.frames[0][0])

    def _body(self) -> Iterator[DeliveryStep]:
        last = len(self._answer.frames) - 1
        for place, (at_ms, data) in enumerate(self._answer.frames):
            yield from self._until(at_ms)
            if place == last and self._answer.ending == "complete" and self._answer.end_ms <= at_ms:
                self._call.delivered()  # clients close the connection after the last event
            yield data
        if not self._answer.is_single_frame:
            yield from self._end()
        self._call.delivered()

    def _end(self) -> Iterator[float]:
        yield from self._until(self._answer.end_ms)
        if self._answer.ending != "complete":
            raise self._error("cut" if self._answer.ending == "cut" else "reset")

    def _until(self, due_ms: float) -> Iterator[float]:
        took_s = SYSTEM_CLOCK.monotonic_s() - self._started_s
        wait_s, timeout_s = due_ms / 1000.0 - took_s, inf if self._read_timeout_s is None else self._read_timeout_s
        patience_s = self._call.patience_s - took_s
        if patience_s < min(wait_s, timeout_s):
            yield max(patience_s, 0.0)
            self._call.hang()
        if wait_s > timeout_s:
            yield timeout_s
            raise self._error("timeout")
        if wait_s > 0:
            yield wait_s

    def _error(self, failure: ConnectionFailure) -> Exception:
        self._call.left()
        return self._error_types[failure](_ERROR_TEXTS[failure])


def _sleep(wait_s: float) -> None:
    """Wait in this thread. Only the functions of `time` know virtual time."""
    wait_s = min(wait_s, threading.TIMEOUT_MAX)
    if VirtualTimeLoop.shared_clock is None:
        threading.Event().wait(wait_s)
    else:
        time.sleep(wait_s)


async def _sleep_async(wait_s: float) -> None:
    if isfinite(wait_s):
        await SYSTEM_CLOCK.sleep_s(wait_s)
    else:
        await asyncio.get_running_loop().create_future()


is_upstream_call: ContextVar[bool] = ContextVar("is_upstream_call", default=False)
"""Whether a request is for a real API, although other clients' requests are intercepted."""


@contextmanager
def _upstream_call() -> Iterator[None]:
    token = is_upstream_call.set(True)
    try:
        yield
    finally:
        is_upstream_call.reset(token)


class InProcessTransport:
    """Lets `answers` answer the requests of httpx or httpx2 clients, and raises the library's own errors of a socket.

    Calls that only the real API can answer go through `live` or `live_async`, by default over the network. The
    subclasses of `transport_type` contain the differences between httpx and httpx2.
    """

    library: ClassVar[Any]
    delivered_body: ClassVar[type[DeliveredBody]]
    captured_body: ClassVar[type[CapturedBody]]

    def __init__(self, answers: InProcessClients, *, live: Any = None, live_async: Any = None) -> None:
        self._answers, self._live, self._live_async = answers, live, live_async

    def handle_request(self, request: Any) -> Any:
        call = self._answers.accept(_http_request(request, request.read()))
        if isinstance(call, InProcessForwarder):
            response = self._send_upstream(request, call)
            if not call.has_fault:
                return response
            response.read()
            call = _replacement(call)
        delivery = self._delivery(call, request)
        return self.library.Response(delivery.open(), headers=delivery.headers, stream=self.delivered_body(delivery))

    async def handle_async_request(self, request: Any) -> Any:
        call = self._answers.accept(_http_request(request, await request.aread()))
        if isinstance(call, InProcessForwarder):
            response = await self._send_upstream_async(request, call)
            if not call.has_fault:
                return response
            await response.aread()
            call = _replacement(call)
        delivery = self._delivery(call, request)
        status = await delivery.open_async()
        return self.library.Response(status, headers=delivery.headers, stream=self.delivered_body(delivery))

    def close(self) -> None:
        self.close_live()
        self._answers.close()

    async def aclose(self) -> None:
        await self.aclose_live()
        self._answers.close()

    def __exit__(self, kind: type[BaseException] | None = None, *error: object) -> None:
        if kind is not None:
            self._answers.keep()
        self.close()

    async def __aexit__(self, kind: type[BaseException] | None = None, *error: object) -> None:
        if kind is not None:
            self._answers.keep()
        await self.aclose()

    def close_live(self) -> None:
        """Close the connections to real APIs alone."""
        if self._live is not None:
            self._live.close()

    async def aclose_live(self) -> None:
        """Close the connections to real APIs alone."""
        if self._live_async is not None:
            await self._live_async.aclose()

    def _send_upstream(self, request: Any, forwarder: InProcessForwarder) -> Any:
        if self._live is None:
            self._live = self.library.HTTPTransport()
        with forwarder.capturing(), _upstream_call():
            response = self._live.handle_request(self._upstream_request(request))
        return self._captured_response(response, forwarder)

    async def _send_upstream_async(self, request: Any, forwarder: InProcessForwarder) -> Any:
        if self._live_async is None:
            self._live_async = self.library.AsyncHTTPTransport()
        with forwarder.capturing(), _upstream_call():
            response = await self._live_async.handle_async_request(self._upstream_request(request))
        return self._captured_response(response, forwarder)

    def _captured_response(self, response: Any, forwarder: InProcessForwarder) -> Any:
        headers = forwarder.start(response.status_code, response.headers.raw)
        body = self.captured_body(response, forwarder)
        return self.library.Response(response.status_code, headers=headers, stream=body)

    def _upstream_request(self, request: Any) -> Any:
        """Return the request for the real API, without the session and the headers of offbook."""
        path = split_session_path(request.url.raw_path.decode("latin-1"))[1]
        return self.library.Request(
            request.method,
            request.url.copy_with(raw_path=path.encode("latin-1")),
            headers=upstream_request_headers(request.headers.raw),
            content=request.content,
            extensions=request.extensions,
        )

    def _delivery(self, call: InProcessCall, request: Any) -> Delivery:
        read_timeout_s = request.extensions.get("timeout", {}).get("read")
        error_types: ErrorTypes = {
            "cut": self.library.RemoteProtocolError,
            "reset": self.library.ReadError,
            "timeout": self.library.ReadTimeout,
        }
        return Delivery(call, read_timeout_s=read_timeout_s, error_types=error_types)


def _http_request(request: Any, body: bytes) -> HttpRequest:
    url = request.url
    return HttpRequest(request.method, url.path, url.query.decode("latin-1"), dict(request.headers), body)


def _replacement(forwarder: InProcessForwarder) -> InProcessCall:
    answer = forwarder.replacement_response()
    assert answer is not None, "a call with a fault has a replacement"
    return InProcessCall(answer)


class DeliveredBody:
    """The body of an answer from a StandIn."""

    def __init__(self, delivery: Delivery) -> None:
        self._delivery = delivery

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._delivery)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return aiter(self._delivery)

    def close(self) -> None:
        self._delivery.close()

    async def aclose(self) -> None:
        self._delivery.close()


class CapturedBody:
    """The body of a response of a real API."""

    def __init__(self, response: Any, forwarder: InProcessForwarder) -> None:
        self._response, self._forwarder = response, forwarder

    def __iter__(self) -> Iterator[bytes]:
        return self._forwarder.forwarded_pieces(self._response.stream)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._forwarder.forwarded_pieces_async(self._response.stream)

    def close(self) -> None:
        self._response.close()
        self._forwarder.leave()

    async def aclose(self) -> None:
        await self._response.aclose()
        self._forwarder.leave()


@cache
def transport_type(library: Any) -> Any:
    """Return the InProcessTransport for sync and async clients of `library`: httpx or httpx2, which have equal names.

    It and its bodies inherit from the transports and byte streams of the library, because clients check that.
    """
    streams = (library.SyncByteStream, library.AsyncByteStream)
    members = {
        "library": library,
        "delivered_body": type("StandInBody", (DeliveredBody, *streams), {}),
        "captured_body": type("UpstreamBody", (CapturedBody, *streams), {}),
    }
    bases = (InProcessTransport, library.BaseTransport, library.AsyncBaseTransport)
    return type("StandInTransport", bases, members)
