"""Routes requests to sessions, control endpoints and proxy, and runs the server on a socket in a thread."""

from __future__ import annotations

import asyncio
import errno
import hmac
import logging
import socket
import threading
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self
from urllib.parse import parse_qs

from offbook.errors import InputError
from offbook.vendors import DUMMY_KEY, KEY_HEADERS, api_key_variables, base_url_variables
from offbook.wire.backend import (
    ACCEPTED_CALL,
    AcceptedCall,
    CallInspection,
    SessionRegistry,
    WireBackend,
    accept,
    session_prefix,
    split_session_path,
)
from offbook.wire.options import LOOPBACK, WireOptions
from offbook.wire.proxy.upstream import Upstreams
from offbook.wire.request import HttpRequest, header_dict, route_of
from offbook.wire.response import HttpResponse, refusal_response
from offbook.wire.server.connection import REQUEST_LIMITS, DirectConnection, RequestLimits, has_left, send_response
from offbook.wire.server.control import CONTROL_PREFIX, control_response
from offbook.wire.server.http_protocol import TRANSPORT, OpenConnections, Receive, Scope, Send

if TYPE_CHECKING:
    from offbook.wire.proxy.proxy import Proxy


logger = logging.getLogger("offbook.wire")
_PLAIN_KEY_HEADERS = sorted(KEY_HEADERS - {"authorization"})


class Access:
    """Allows requests that carry `api_key` where the vendors' clients put a key; without an `api_key`, all."""

    def __init__(self, api_key: str = "") -> None:
        self._api_key = api_key.encode()

    def allows(self, request: HttpRequest) -> bool:
        return not self._api_key or any(hmac.compare_digest(key.encode(), self._api_key) for key in _keys_in(request))


def _keys_in(request: HttpRequest) -> list[str]:
    bearer = request.headers.get("authorization", "").partition(" ")[2]
    keys = [bearer, *(request.headers.get(name, "") for name in _PLAIN_KEY_HEADERS)]
    return keys + parse_qs(request.query).get("key", []) if request.query else keys


def _is_control_path(path: str) -> bool:
    """Return whether a path is below `/_offbook`, of the server or of a session."""
    return CONTROL_PREFIX in path and split_session_path(path)[1].startswith(CONTROL_PREFIX)


class BodyTooLargeError(Exception):
    """A request body above the limit."""


class Forwarder(Protocol):
    """Forwards calls that a session cannot answer."""

    async def forward(self, accepted: AcceptedCall, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the request to the real API, and forward its response."""
        ...


class WireApp:
    """Answers requests from their sessions. Calls that a session cannot answer go to `upstream`."""

    def __init__(
        self,
        sessions: SessionRegistry,
        *,
        access: Access,
        upstream: Forwarder | None = None,
        limits: RequestLimits = REQUEST_LIMITS,
    ) -> None:
        self._sessions, self._access, self._upstream, self._limits = sessions, access, upstream, limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        accepted: AcceptedCall | None = scope.get(ACCEPTED_CALL)
        if accepted is not None:
            await self._finish(accepted, scope, receive, send)
            return
        try:
            request = HttpRequest(
                method=scope["method"],
                path=scope["path"],
                query=scope["query_string"].decode("latin-1"),
                headers=header_dict(scope["headers"]),
                body=await self._body(receive),
            )
        except BodyTooLargeError:
            message = f"the body is larger than {self._limits.body_bytes} bytes"
            await send_response(_refusal(scope, 413, message), scope, receive, send)
            return
        except ConnectionError:
            return
        if not self._access.allows(request):
            await send_response(_refusal(scope, 401, "the API key is not that of this server"), scope, receive, send)
        elif _is_control_path(request.path):
            await send_response(control_response(request, self._sessions), scope, receive, send)
        else:
            await self._finish(accept(self._sessions, request), scope, receive, send)

    def accept(self, request: HttpRequest) -> AcceptedCall | None:
        """Have the session of a request answer it; None if the request is not for a session."""
        is_for_session = self._access.allows(request) and not _is_control_path(request.path)
        is_accepted = is_for_session and len(request.body) <= self._limits.body_bytes
        return accept(self._sessions, request) if is_accepted else None

    async def _finish(self, accepted: AcceptedCall, scope: Scope, receive: Receive, send: Send) -> None:
        if accepted.answer is not None:
            is_gone = accepted.session.is_explored and has_left(scope[TRANSPORT])
            is_sent = await send_response(accepted.answer, scope, receive, send)
            if is_sent and not is_gone:
                accepted.delivered()
            else:
                accepted.left()
        elif self._upstream is not None:
            try:
                await self._upstream.forward(accepted, scope, receive, send)
            except Exception:
                logger.exception("%s %s could not be forwarded", accepted.request.method, accepted.request.path)
                raise

    async def _body(self, receive: Receive) -> bytes:
        pieces, size, has_more = [], 0, True
        while has_more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ConnectionError("the client left")
            pieces.append(message["body"])
            size += len(message["body"])
            if size > self._limits.body_bytes:
                raise BodyTooLargeError
            has_more = message["more_body"]
        return b"".join(pieces)


def _refusal(scope: Scope, status: int, message: str) -> HttpResponse:
    path = split_session_path(scope["path"])[1]
    codec = route_of(scope["method"], path, header_dict(scope["headers"])).any_codec
    return refusal_response(codec, status, message)


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

        return Proxy(
            upstreams,
            self._backend.recorder,
            timeout_s=self._options.upstream_timeout_s,
            end_wait_s=self._options.upstream_end_wait_s,
        )

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
