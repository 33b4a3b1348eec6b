"""Runs the server on a socket in a thread: serving(), WireServer, and the variables that point SDKs at it."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Self

import uvicorn
from uvicorn.server import ServerState

from offbook.errors import InputError
from offbook.events import NULL_SINK, Sink
from offbook.faults import FaultPlan, PlannedFault
from offbook.recording.format.document import Document
from offbook.recording.latency import LatencyModel
from offbook.recording.record_mode import RecordMode
from offbook.recording.redact.redactor import Redactor
from offbook.wire.backend import CallInspection, WireBackend, WireOptions, session_prefix
from offbook.wire.proxy.proxy import Proxy
from offbook.wire.proxy.upstream import Upstreams
from offbook.wire.server.app import Access, WireApp
from offbook.wire.server.connection import DirectConnection

LOOPBACK = "127.0.0.1"
BACKLOG = 2048
MAX_PORT = 65_535
LOOP_TURNS_TO_CONNECT = 5
"""In how many turns of its loop, at most, a server has made the connections that it accepted."""
READ_BYTES = 64 * 1024
_PORT_HINT = "port 0 takes any that is free"
_HOST_HINT = "name an address of this machine: 127.0.0.1, or 0.0.0.0 for all of them"


def bind_socket(host: str, port: int) -> socket.socket:
    """A socket that listens at the address; port 0 is any that is free.

    Raises:
        InputError: it cannot listen there.
    """
    if not 0 <= port <= MAX_PORT:
        raise InputError(f"cannot listen at {host}:{port}: ports are 0 to {MAX_PORT}", hint=_PORT_HINT)
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        hint = _PORT_HINT if error.errno in (errno.EADDRINUSE, errno.EACCES) else _HOST_HINT
        raise InputError(f"cannot listen at {host}:{port}: {error.strerror or error}", hint=hint) from None
    # connections inherit it; else the end of an answer waits until the client has confirmed its beginning
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


class ServerThread:
    """Runs the application on `listener` from `start` to `stop`, which ends what is under way.

    `on_stop` is awaited on the server's own loop when all connections are closed.
    """

    def __init__(
        self,
        app: WireApp,
        listener: socket.socket,
        *,
        on_stop: Callable[[], Awaitable[Any]] | None = None,
    ) -> None:
        self._app, self._listener, self._on_stop = app, listener, on_stop
        self._config = uvicorn.Config(
            app, lifespan="off", log_config=None, access_log=False, ws="none", proxy_headers=False
        )
        self._state = ServerState()
        self._buffer = memoryview(bytearray(READ_BYTES))
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended: asyncio.Event | None = None
        self._is_ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="offbook-wire", daemon=True)

    def start(self) -> None:
        self._config.load()
        self._thread.start()
        self._is_ready.wait()

    def stop(self) -> None:
        """End the server. Safe to call twice, and before it was started."""
        if self._thread.ident is None:
            self._listener.close()
            return
        if self._loop is not None and self._ended is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join()

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        loop = self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        server = await loop.create_server(self._connect, sock=self._listener, backlog=BACKLOG)
        self._is_ready.set()
        await self._ended.wait()
        loop.remove_reader(self._listener)  # what was accepted could not be connected any more behind close()
        await self._close_connections()
        server.close()
        if self._on_stop is not None:
            await self._on_stop()

    def _connect(self) -> DirectConnection:
        return DirectConnection(self._config, self._state, self._loop, begin=self._app.begin, buffer=self._buffer)

    async def _close_connections(self) -> None:
        for _ in range(LOOP_TURNS_TO_CONNECT):
            await asyncio.sleep(0)
            for connection in list(self._state.connections):
                connection.transport.abort()
        tasks = list(self._state.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


DUMMY_KEY = "offbook"
_KEY_VARIABLES = {
    "openai": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY",),
    "google": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "ollama": ("OLLAMA_API_KEY",),
}
_PROXY_VARIABLES = ("http_proxy", "all_proxy")


def base_url_variables(url: str) -> dict[str, str]:
    """The variables that tell SDKs, and what reads `OFFBOOK_URL`, where to ask, for a server at `url`."""
    return {
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_API_BASE": f"{url}/v1",
        "ANTHROPIC_BASE_URL": url,
        "GOOGLE_GEMINI_BASE_URL": url,
        "OLLAMA_HOST": url,
        "OFFBOOK_URL": url,
    }


def api_key_variables(api_key: str = DUMMY_KEY, *, vendors: Iterable[str] = tuple(_KEY_VARIABLES)) -> dict[str, str]:
    """The variables that hold keys, of all vendors or of some, with one that no vendor would take."""
    return dict.fromkeys([name for vendor in vendors for name in _KEY_VARIABLES[vendor]], api_key)


def no_proxy_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that keep clients from asking a proxy for what is on this machine, if they have one."""
    if not any(environment.get(name) or environment.get(name.upper()) for name in _PROXY_VARIABLES):
        return {}
    spared = environment.get("no_proxy") or environment.get("NO_PROXY") or ""
    hosts = ",".join(filter(None, [spared, "127.0.0.1", "localhost"]))
    return {"no_proxy": hosts, "NO_PROXY": hosts}


_LOOPBACK_HOSTS = ("127.0.0.1", "::1", "localhost")


class WireServer(CallInspection):
    """A server that stands in for OpenAI, Anthropic, Gemini and Ollama while its block runs.

    Raises:
        InputError: an option is wrong, a recording cannot be read, or the address cannot be listened at.
    """

    def __init__(self, options: WireOptions, *, host: str = LOOPBACK, port: int = 0, api_key: str = "") -> None:
        if host not in _LOOPBACK_HOSTS and not api_key:
            hint = "everybody who reaches the address could ask; give one, and give it to the clients as their key"
            raise InputError(f"listening at {host} needs an API key", source="host", hint=hint)
        upstreams = Upstreams(options.upstreams, keys=options.upstream_keys, are_clients_keys_ours=bool(api_key))
        self._options, self._api_key = options, api_key
        super().__init__(WireBackend(options))
        try:
            self._listener = bind_socket(host, port)
            self._address: tuple[str, int] = self._listener.getsockname()[:2]
            self._proxy = self._proxy_to(upstreams)
        except InputError:
            self._stage.close()
            raise
        app = WireApp(self._stage.sessions, access=Access(api_key), upstream=self._proxy)
        self._thread = ServerThread(app, self._listener, on_stop=None if self._proxy is None else self._proxy.close)

    @property
    def url(self) -> str:
        """The server's address, without a slash at its end. OpenAI's clients want `url + "/v1"`."""
        host, port = self._address
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    @property
    def env(self) -> dict[str, str]:
        """The variables that lead the vendors' SDKs here, with keys that cost nothing.

        While recording, the clients' own keys are needed: only those are told that `upstream_keys` stand in for.
        """
        if self._api_key or not self._stage.is_live:
            return base_url_variables(self.url) | api_key_variables(self._api_key or DUMMY_KEY)
        return base_url_variables(self.url) | api_key_variables(vendors=self._options.upstream_keys or ())

    def session_url(self, name: str) -> str:
        """The address of a session: what `url` is to the one without a name."""
        return self.url + session_prefix(name)

    def _proxy_to(self, upstreams: Upstreams) -> Proxy | None:
        if self._stage.recorder is None or not self._stage.is_live:
            return None
        vendor = upstreams.vendor_at(self._address[1])
        if vendor is not None:
            self._listener.close()
            told = f"port {self._address[1]} is where {vendor} is asked: the server would ask itself"
            raise InputError(told, source="port", hint=f"take another port, or name another in upstreams: {vendor}")
        return Proxy(upstreams, self._stage.recorder, timeout_s=self._options.upstream_timeout_s)

    def start(self) -> Self:
        self._thread.start()
        return self

    def stop(self) -> None:
        """End the server and what is under way. Safe to call twice."""
        self._thread.stop()
        self._stage.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def serving(  # noqa: PLR0913 - each is an option that tests set by name
    recording: str | os.PathLike[str] | None = None,
    *,
    responses: Mapping[str, Any] | Document | None = None,
    strict: bool | None = None,
    default_response: str | None = None,
    faults: Iterable[str | PlannedFault] | FaultPlan = (),
    latency_model: LatencyModel = "constant",
    latency_ms: float = 0.0,
    retry_after_ms: float | None = None,
    host: str = LOOPBACK,
    port: int = 0,
    api_key: str = "",
    sink: Sink = NULL_SINK,
    record: str | os.PathLike[str] | None = None,
    record_mode: RecordMode = "append",
    upstreams: Mapping[str, str] | None = None,
    upstream_keys: Mapping[str, str] | None = None,
    upstream_timeout_s: float | None = None,
    redactor: Redactor | None = None,
) -> WireServer:
    """A server that stands in for the vendors' APIs, to be used as a context manager; see StageOptions.

    Args:
        host, port: where to listen; by default on loopback, at any port that is free.
        api_key: what clients must give as their key; other hosts than loopback need one. It does not go upstream.
        sink: told of every call.

    Raises:
        InputError: an option is wrong, a recording cannot be read, or the address cannot be listened at.
    """
    options = WireOptions(
        recording=recording,
        responses=responses,
        strict=strict,
        default_response=default_response,
        faults=faults,
        latency_model=latency_model,
        latency_ms=latency_ms,
        retry_after_ms=retry_after_ms,
        sink=sink,
        record=record,
        record_mode=record_mode,
        upstreams=upstreams,
        upstream_keys=upstream_keys,
        upstream_timeout_s=upstream_timeout_s,
        redactor=redactor,
    )
    return WireServer(options, host=host, port=port, api_key=api_key)
