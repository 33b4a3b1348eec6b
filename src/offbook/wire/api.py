"""The public entry points: `serving`, StandIn, and HTTP clients that are answered without a socket."""

from __future__ import annotations

import os
import threading
from types import TracebackType
from typing import TYPE_CHECKING, Self

from typing_extensions import Unpack

from offbook.wire.backend import CallInspection, WireBackend, accept
from offbook.wire.options import LOOPBACK, ServingOptions, StandInOptions, WireOptions
from offbook.wire.request import HttpRequest, credentials_of
from offbook.wire.response import HttpResponse

if TYPE_CHECKING:
    import httpx
    import httpx2

    from offbook.wire.httpx2_transport import Httpx2Transport
    from offbook.wire.httpx_transport import HttpxTransport
    from offbook.wire.proxy.forwarding import InProcessForwarder
    from offbook.wire.server.wire_server import WireServer


def serving(
    recording: str | os.PathLike[str] | None = None,
    *,
    host: str = LOOPBACK,
    port: int = 0,
    api_key: str = "",
    **options: Unpack[ServingOptions],
) -> WireServer:
    """Return a server that stands in for the vendors' APIs while its `with` block runs.

    Args:
        recording: a path, a folder of recordings, or `sqlite:///path.db`.
        host, port: where to listen; by default on loopback, at any free port.
        api_key: the key that clients must send; required for hosts other than loopback. It is not sent upstream.
        options: see WireOptions.

    Raises:
        InputError: an option is invalid, a recording cannot be read, or the server cannot listen at the address.
    """
    from offbook.wire.server.wire_server import WireServer  # noqa: PLC0415 - asyncio and the server take long to load

    return WireServer(WireOptions(recording=recording, **options), host=host, port=port, api_key=api_key)


class StandIn(CallInspection):
    """Answers HTTP clients of this process in the place of OpenAI, Anthropic, Gemini and Ollama, without a socket.

    `recording` is a path, a folder of recordings, or `sqlite:///path.db`; for `options` see WireOptions. Path and
    headers decide what a request calls; its host is ignored. With `record`, calls that are not recorded go to the
    address that the client requests, and are recorded. All its clients, of all threads and event loops, share one
    position in the recording. It can be used again after `close`.

    Raises:
        InputError: an option is invalid, or a recording cannot be read.
    """

    def __init__(self, recording: str | os.PathLike[str] | None = None, **options: Unpack[StandInOptions]) -> None:
        super().__init__(WireBackend(WireOptions(recording=recording, **options)))
        self._lock = threading.Lock()

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

    def transport(
        self, *, live: httpx2.BaseTransport | None = None, live_async: httpx2.AsyncBaseTransport | None = None
    ) -> Httpx2Transport:
        """Return a transport for sync and async clients of httpx2."""
        from offbook.wire.httpx2_transport import Httpx2Transport  # noqa: PLC0415

        return Httpx2Transport(self, live=live, live_async=live_async)

    def httpx_transport(
        self, *, live: httpx.BaseTransport | None = None, live_async: httpx.AsyncBaseTransport | None = None
    ) -> HttpxTransport:
        """Return a transport for sync and async clients of httpx: `ollama.Client(transport=…)`."""
        from offbook.wire.httpx_transport import HttpxTransport  # noqa: PLC0415 - httpx may not be installed

        return HttpxTransport(self, live=live, live_async=live_async)

    def answer(self, request: HttpRequest) -> HttpResponse | InProcessForwarder:
        """Return the answer to a request, or what captures it if only the real API can answer.

        Raises:
            InputError: the call cannot be recorded under its key.
        """
        with self._lock:
            accepted = accept(self._backend.sessions, request)
        if accepted.answer is not None:
            accepted.delivered()  # nothing reports later whether the client has waited for it
            return accepted.answer
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
            self._backend.keep_recording()
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
