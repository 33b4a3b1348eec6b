"""The public entry points without a socket: StandIn, and HTTP clients that it answers."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from math import inf
from types import TracebackType
from typing import TYPE_CHECKING, Self

from typing_extensions import Unpack

from offbook.faults.fault import Hold, hold_nothing
from offbook.faults.order import OrderFault
from offbook.wire.backend import AcceptedCall, CallInspection, WireBackend, accept
from offbook.wire.options import StandInOptions, WireOptions
from offbook.wire.request import HttpRequest, credentials_of
from offbook.wire.response import HttpResponse

if TYPE_CHECKING:
    import httpx
    import httpx2

    from offbook.wire.intercept.in_process import InProcessInterception
    from offbook.wire.proxy.forwarding import InProcessForwarder
    from offbook.wire.transport import InProcessTransport

    class Httpx2Transport(InProcessTransport, httpx2.BaseTransport, httpx2.AsyncBaseTransport):
        """The transport that `transport_type(httpx2)` returns."""

    class HttpxTransport(InProcessTransport, httpx.BaseTransport, httpx.AsyncBaseTransport):
        """The transport that `transport_type(httpx)` returns."""


class InProcessCall:
    """A call answered in this process: its answer, and the notes for its arrival or failure.

    A client that waits longer than `patience_s` for the answer, or for its end, has hung.
    """

    patience_s = inf

    def __init__(
        self,
        answer: HttpResponse,
        accepted: AcceptedCall | None = None,
        *,
        guard: AbstractContextManager[object] | None = None,
    ) -> None:
        self.answer = answer
        self._accepted, self._guard = accepted, guard or nullcontext()
        self._end_in_order: Callable[[], object] = lambda: None

    @property
    def is_held(self) -> bool:
        """Whether the answer may arrive late."""
        attempt = None if self._accepted is None else self._accepted.attempt
        return attempt is not None and isinstance(attempt.fault, OrderFault)

    async def in_order(self, answer: Callable[[], Awaitable[object]]) -> None:
        """Await the head of the answer in the order of the fault plan. The call is under way until its end."""
        attempt = None if self._accepted is None else self._accepted.attempt
        fault, hold = None if attempt is None else attempt.fault, self._start_in_order()
        try:
            await (fault.reorder(answer, hold) if isinstance(fault, OrderFault) else answer())
        except BaseException:
            self._end_in_order()
            raise

    def start_blocking(self) -> None:
        """Note that the thread waits for the answer: no other call of it can end before, so it is not held."""
        attempt = None if self._accepted is None else self._accepted.attempt
        self._start_in_order()
        if self._accepted is not None and attempt is not None and isinstance(attempt.fault, OrderFault):
            with self._guard:
                self._accepted.session.forgive(attempt)

    def _start_in_order(self) -> Hold:
        """Note that the call is under way, if that matters, and return the hold on its answer."""
        accepted, attempt = self._accepted, None if self._accepted is None else self._accepted.attempt
        if accepted is None or attempt is None or attempt.site is None or not accepted.is_ordered:
            return hold_nothing
        session = accepted.session
        call = session.order.start(attempt.site)
        self._end_in_order = partial(session.order.end, call)
        return session.order.holder(call, partial(session.forgive, attempt))

    def delivered(self) -> None:
        """Note that the answer has arrived completely."""
        self._end_in_order()
        with self._guard:
            accepted, self._accepted = self._accepted, None
            if accepted is not None:
                accepted.delivered()

    def left(self) -> None:
        """Note that the client, or a fault, has ended the connection, unless the answer has arrived before."""
        self._end_in_order()
        with self._guard:
            accepted, self._accepted = self._accepted, None
            if accepted is not None:
                accepted.left()

    def hang(self) -> None:
        """Handle a client that has waited for too long."""


class InProcessClients(ABC):
    """Creates HTTP clients of this process, whose requests are answered without a socket."""

    @abstractmethod
    def accept(self, request: HttpRequest) -> InProcessCall | InProcessForwarder:
        """Return the answer to a request, or its capture if only the real API can answer.

        Raises:
            InputError: the call cannot be recorded under its key.
        """

    def keep(self) -> None:
        """Keep a recording unchanged, before `close`, when an error leaves a client's block."""

    @abstractmethod
    def close(self) -> None:
        """Called when a client is closed. Safe to call twice."""

    def http_client(self, transport: httpx2.AsyncBaseTransport | None = None) -> httpx2.AsyncClient:
        """Return a client for the SDKs of OpenAI, Anthropic and Google: `AsyncOpenAI(http_client=…)`.

        Calls to be recorded go through `transport`, by default over the network.
        """
        import httpx2  # noqa: PLC0415 - loading it takes longer than the rest of offbook

        return httpx2.AsyncClient(transport=self.transport(live_async=transport))

    def sync_http_client(self, transport: httpx2.BaseTransport | None = None) -> httpx2.Client:
        """Return a client for synchronous SDKs: `OpenAI(http_client=…)`."""
        import httpx2  # noqa: PLC0415

        return httpx2.Client(transport=self.transport(live=transport))

    def intercept(self, *hosts: str) -> InProcessInterception:
        """Answer all requests of httpx, httpx2, requests and aiohttp in this process to vendors' APIs.

        Clients may be created anywhere, even before. `hosts` are further hosts, or patterns like `*.example.org`. It
        lasts until the end of the block, or until `close`.

        Raises:
            InputError: one of `hosts` is not a host.
        """
        from offbook.wire.intercept.in_process import InProcessInterception  # noqa: PLC0415 - few tests need it

        return InProcessInterception(self, hosts)

    def transport(
        self, *, live: httpx2.BaseTransport | None = None, live_async: httpx2.AsyncBaseTransport | None = None
    ) -> Httpx2Transport:
        """Return a transport for sync and async clients of httpx2."""
        import httpx2  # noqa: PLC0415

        from offbook.wire.transport import transport_type  # noqa: PLC0415

        transport: Httpx2Transport = transport_type(httpx2)(self, live=live, live_async=live_async)
        return transport

    def httpx_transport(
        self, *, live: httpx.BaseTransport | None = None, live_async: httpx.AsyncBaseTransport | None = None
    ) -> HttpxTransport:
        """Return a transport for sync and async clients of httpx: `ollama.Client(transport=…)`."""
        import httpx  # noqa: PLC0415 - it may not be installed

        from offbook.wire.transport import transport_type  # noqa: PLC0415

        transport: HttpxTransport = transport_type(httpx)(self, live=live, live_async=live_async)
        return transport


class StandIn(InProcessClients, CallInspection):
    """Answers HTTP clients of this process in place of OpenAI, Anthropic, Gemini and Ollama, without a socket.

    `recording` is a path, a folder of recordings, or `sqlite:///path.db`; for `options` see WireOptions. Path and
    headers decide what a request calls; its host is ignored. With `record`, unrecorded calls go to the address that the
    client requests, and are recorded. All its clients, of all threads and event loops, share one position in the
    recording. It can be used again after `close`.

    Raises:
        InputError: an option is invalid, or a recording cannot be read.
    """

    def __init__(self, recording: str | os.PathLike[str] | None = None, **options: Unpack[StandInOptions]) -> None:
        super().__init__(WireBackend(WireOptions(recording=recording, **options)))
        self._lock = threading.Lock()

    def accept(self, request: HttpRequest) -> InProcessCall | InProcessForwarder:
        with self._lock:
            accepted = accept(self._backend.sessions, request)
        if accepted.answer is not None:
            return InProcessCall(accepted.answer, accepted, guard=self._lock)
        from offbook.wire.proxy.forwarding import InProcessForwarder  # noqa: PLC0415 - only recording needs it

        assert accepted.attempt is not None
        assert self._backend.recorder is not None
        return InProcessForwarder(
            accepted.session,
            accepted.attempt,
            self._backend.recorder,
            guard=self._lock,
            credentials=credentials_of(accepted.request),
        )

    def keep(self) -> None:
        """Keep a recording that was to be replaced, because the run failed."""
        with self._lock:
            self._backend.keep_recording()

    def close(self) -> None:
        """Close the recording. Safe to call twice."""
        with self._lock:
            self._backend.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.keep()
        self.close()


def http_client(
    recording: str | os.PathLike[str] | None = None,
    *,
    transport: httpx2.AsyncBaseTransport | None = None,
    **options: Unpack[StandInOptions],
) -> httpx2.AsyncClient:
    """Return a client of a new StandIn, for `AsyncOpenAI(http_client=…)`. Create a StandIn to inspect its calls.

    Calls to be recorded go through `transport`, by default over the network.

    Raises:
        InputError: an option is invalid, or a recording cannot be read.
    """
    return StandIn(recording, **options).http_client(transport)


def sync_http_client(
    recording: str | os.PathLike[str] | None = None,
    *,
    transport: httpx2.BaseTransport | None = None,
    **options: Unpack[StandInOptions],
) -> httpx2.Client:
    """Return a client of a new StandIn, for `OpenAI(http_client=…)`."""
    return StandIn(recording, **options).sync_http_client(transport)
