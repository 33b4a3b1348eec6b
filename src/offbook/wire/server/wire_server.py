"""Runs the server on a socket in a thread, and gives the variables that point SDKs at it."""

from __future__ import annotations

import asyncio
import errno
import socket
import threading
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from offbook.errors import InputError
from offbook.vendors import DUMMY_KEY, api_key_variables, base_url_variables
from offbook.wire.backend import CallInspection, WireBackend, session_prefix
from offbook.wire.options import LOOPBACK, WireOptions
from offbook.wire.proxy.upstream import Upstreams
from offbook.wire.server.app import Access, WireApp
from offbook.wire.server.connection import DirectConnection
from offbook.wire.server.http_protocol import OpenConnections

if TYPE_CHECKING:
    from offbook.wire.proxy.proxy import Proxy

BACKLOG = 2048
MAX_PORT = 65_535
LOOP_TURNS_TO_CONNECT = 5
"""After how many turns of its loop, at most, a server has created the connections that it accepted."""
READ_BYTES = 64 * 1024
_PORT_HINT = "port 0 is any free port"
_HOST_HINT = "name an address of this machine: 127.0.0.1, or 0.0.0.0 for all"


def bind_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens at the address; port 0 is any free port.

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
    # inherited by connections; else the end of a response waits until the client has acknowledged its start
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


class ServerThread:
    """Runs the application on `listener` from `start` to `stop`, which aborts open connections.

    `on_stop` is awaited on the server's loop when all connections are closed.
    """

    def __init__(
        self,
        app: WireApp,
        listener: socket.socket,
        *,
        on_stop: Callable[[], Awaitable[Any]] | None = None,
    ) -> None:
        self._listener, self._on_stop = listener, on_stop
        self._open = OpenConnections()
        buffer = memoryview(bytearray(READ_BYTES))
        self._connect = partial(DirectConnection, app, self._open, accept=app.accept, buffer=buffer)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended: asyncio.Event | None = None
        self._is_ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="offbook-wire", daemon=True)

    def start(self) -> None:
        self._thread.start()
        self._is_ready.wait()

    def stop(self) -> None:
        """Stop the server. Safe to call twice, and before `start`."""
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
        loop.remove_reader(self._listener)  # a connection accepted after close() would not be created
        await self._close_connections()
        server.close()
        if self._on_stop is not None:
            await self._on_stop()

    async def _close_connections(self) -> None:
        for _ in range(LOOP_TURNS_TO_CONNECT):
            await asyncio.sleep(0)
            for connection in list(self._open.connections):
                connection.transport.abort()
        tasks = list(self._open.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


_PROXY_VARIABLES = ("http_proxy", "all_proxy")


def no_proxy_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that keep clients from using a proxy for this machine, if one is set."""
    if not any(environment.get(name) or environment.get(name.upper()) for name in _PROXY_VARIABLES):
        return {}
    excluded = environment.get("no_proxy") or environment.get("NO_PROXY") or ""
    hosts = ",".join(filter(None, [excluded, LOOPBACK, "localhost"]))
    return {"no_proxy": hosts, "NO_PROXY": hosts}


_LOOPBACK_HOSTS = (LOOPBACK, "::1", "localhost")


class WireServer(CallInspection):
    """A server that stands in for OpenAI, Anthropic, Gemini and Ollama while its `with` block runs.

    `url` is its URL, without a trailing slash. The base URL of OpenAI's clients is `url + "/v1"`.

    Raises:
        InputError: an option is invalid, a recording cannot be read, or the server cannot listen at the address.
    """

    def __init__(self, options: WireOptions, *, host: str = LOOPBACK, port: int = 0, api_key: str = "") -> None:
        if host not in _LOOPBACK_HOSTS and not api_key:
            hint = "anyone who can reach the address could use it; set api_key, and give it to the clients as their key"
            raise InputError(f"listening at {host} requires an API key", source="host", hint=hint)
        upstreams = Upstreams(options.upstreams, keys=options.upstream_keys, clients_use_own_key=bool(api_key))
        self._options, self._api_key = options, api_key
        super().__init__(WireBackend(options))
        try:
            self._listener = bind_socket(host, port)
            address, self._port = self._listener.getsockname()[:2]
            self.url = f"http://[{address}]:{self._port}" if ":" in address else f"http://{address}:{self._port}"
            self._proxy = self._proxy_to(upstreams)
        except InputError:
            self._backend.close()
            raise
        app = WireApp(self._backend.sessions, access=Access(api_key), upstream=self._proxy)
        self._thread = ServerThread(app, self._listener, on_stop=None if self._proxy is None else self._proxy.close)

    @property
    def env(self) -> dict[str, str]:
        """The environment variables that point the vendors' SDKs at the server, with dummy keys.

        While recording, clients must send their own keys: only vendors in `upstream_keys` get a dummy key.
        """
        if self._api_key or not self._backend.is_live:
            return base_url_variables(self.url) | api_key_variables(self._api_key or DUMMY_KEY)
        return base_url_variables(self.url) | api_key_variables(vendors=self._options.upstream_keys or ())

    def session_url(self, name: str) -> str:
        """Return the URL of a session, to be used like `url`."""
        return self.url + session_prefix(name)

    def _proxy_to(self, upstreams: Upstreams) -> Proxy | None:
        if self._backend.recorder is None or not self._backend.is_live:
            return None
        vendor = upstreams.vendor_at(self._port)
        if vendor is not None:
            self._listener.close()
            reason = f"port {self._port} is the upstream of {vendor}: the server would forward calls to itself"
            raise InputError(reason, source="port", hint=f"use another port, or set upstreams: {vendor}")
        from offbook.wire.proxy.proxy import Proxy  # noqa: PLC0415 - only recording needs it

        return Proxy(upstreams, self._backend.recorder, timeout_s=self._options.upstream_timeout_s)

    def start(self) -> Self:
        self._thread.start()
        return self

    def stop(self) -> None:
        """Stop the server, abort open connections and close the recording. Safe to call twice."""
        self._thread.stop()
        self._backend.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None and issubclass(kind, Exception):
            self._backend.keep_recording()
        self.stop()
