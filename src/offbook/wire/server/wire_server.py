"""Routes requests to sessions, control endpoints and proxy: the server that stands in for the vendors' APIs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from socket import socket
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from offbook.errors import InputError
from offbook.vendors import DUMMY_KEY, api_key_variables, base_url_variables
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
from offbook.wire.server.access import (
    ALL_INTERFACES,
    ANY,
    Access,
    is_loopback_name,
    new_token,
    token_path,
    token_variables,
)
from offbook.wire.server.arrival_order import ArrivalOrder
from offbook.wire.server.connection import (
    REQUEST_LIMITS,
    TRANSPORT,
    DirectConnection,
    OpenConnections,
    Receive,
    RequestLimits,
    Scope,
    Send,
    has_left,
    send_response,
)
from offbook.wire.server.control import CONTROL_PREFIX, accept_tools, control_response
from offbook.wire.server.listener import ServerThread, bind_socket, default_limits
from offbook.wire.server.session_clock import Activity
from offbook.wire.session import WireSession

if TYPE_CHECKING:
    from offbook.wire.intercept.interception import Interception
    from offbook.wire.proxy.proxy import Proxy
    from offbook.wire.websocket.connection import WebSocketConnection


logger = logging.getLogger("offbook.wire")


def _is_control_path(path: str) -> bool:
    """Return whether a path is below `/_offbook`, of the server or of a session."""
    return CONTROL_PREFIX in path and split_session_path(path)[1].startswith(CONTROL_PREFIX)


class RefusedBodyError(Exception):
    """A request body that is refused, by status and message."""


class Forwarder(Protocol):
    """Forwards calls that a session cannot answer."""

    async def forward(self, accepted: AcceptedCall, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the request to the real API, and forward its response."""
        ...

    def forward_websocket(self, accepted: AcceptedCall, connection: WebSocketConnection) -> None:
        """Open the session at the real API, and forward both sides' messages."""
        ...


class Mount(Protocol):
    """A further endpoint of the server, below the path `prefix` of each session: MCP servers. Clients log in at paths
    that begin with `login_prefix`.
    """

    prefix: str
    login_prefix: str

    @property
    def is_live(self) -> bool:
        """Whether real servers answer unrecorded requests."""
        ...

    @property
    def names(self) -> Sequence[str]:
        """The names of the MCP servers."""
        ...

    def respond(self, request: HttpRequest, session: WireSession) -> HttpResponse | None:
        """Return the response to a request, or None if it must be forwarded; nothing has happened then."""
        ...

    async def forward(
        self, request: HttpRequest, session: WireSession, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Answer a request that has no response yet."""
        ...

    async def start(self, sessions: SessionRegistry) -> None:
        """Get ready, on the loop of the server."""
        ...

    async def close(self) -> None:
        """Close everything on the server's loop."""
        ...


class WireApp:
    """Answers requests from their sessions, and forwards calls that a session cannot answer to `upstream`.

    Requests below the prefix of the `mount` go there.
    """

    def __init__(
        self,
        sessions: SessionRegistry,
        *,
        access: Access,
        upstream: Forwarder | None = None,
        mount: Mount | None = None,
        limits: RequestLimits = REQUEST_LIMITS,
        has_peers: bool = False,
    ) -> None:
        self._sessions, self._access, self._upstream, self._limits = sessions, access, upstream, limits
        self._received_bytes = 0
        self._mount, self._has_peers = mount, has_peers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        accepted: AcceptedCall | None = scope.get(ACCEPTED_CALL)
        if accepted is not None:
            await self._finish(accepted, scope, receive, send)
            return
        headers, query = header_dict(scope["headers"]), scope["query_string"].decode("latin-1")
        refusal = self._access.refusal(headers, query)
        if refusal is not None:
            await send_response(_refusal(scope, *refusal), scope, receive, send)
            return
        try:
            body = await self._body(receive, int(headers.get("content-length", "0")))
        except RefusedBodyError as error:
            await send_response(_refusal(scope, *error.args), scope, receive, send)
            return
        except ConnectionError:
            return
        request = HttpRequest(scope["method"], scope["path"], query, headers, body)
        if _is_control_path(request.path):
            answer = await control_response(request, self._sessions, has_peers=self._has_peers)
            await send_response(answer, scope, receive, send)
        elif self._is_mounted(request):
            await self._answer_mounted(request, scope, receive, send)
        else:
            await self._finish(accept(self._sessions, request), scope, receive, send)

    def accept(self, request: HttpRequest) -> AcceptedCall | None:
        """Have the session of a request answer it. Return None if the request is not for a session."""
        if self._access.refusal(request.headers, request.query) is not None:
            return None
        if len(request.body) > self._limits.body_bytes:
            return None
        if _is_control_path(request.path):
            return accept_tools(request, self._sessions)
        return self._accept_mounted(request) if self._is_mounted(request) else accept(self._sessions, request)

    def numbering_session(self, request: HttpRequest) -> WireSession | None:
        """Return the session of a request whose number or answer depends on earlier ones, or None."""
        if self._access.refusal(request.headers, request.query) is not None or _is_control_path(request.path):
            return None
        session = self._sessions.for_request(request)[0]
        return session if session.depends_on_order else None

    def open_websocket(self, request: HttpRequest, connection: WebSocketConnection) -> Activity:
        """Answer a WebSocket handshake and the session after it. Return the activity counter of its session."""
        from offbook.wire.websocket.handshake import open_session  # noqa: PLC0415 - most clients use none

        return open_session(request, connection, self._sessions, access=self._access, proxy=self._upstream)

    def _is_mounted(self, request: HttpRequest) -> bool:
        if self._mount is None:
            return False
        if request.path.startswith(self._mount.login_prefix):
            return True
        if self._mount.prefix not in request.path:
            return False
        path = split_session_path(request.path)[1]
        return path == self._mount.prefix or path.startswith(f"{self._mount.prefix}/")

    def _accept_mounted(self, request: HttpRequest) -> AcceptedCall | None:
        assert self._mount is not None
        session, within = self._sessions.for_request(request)
        answer = self._mount.respond(within, session)
        return None if answer is None else AcceptedCall(session, within, None, answer)

    async def _answer_mounted(self, request: HttpRequest, scope: Scope, receive: Receive, send: Send) -> None:
        assert self._mount is not None
        session, within = self._sessions.for_request(request)
        answer = self._mount.respond(within, session)
        if answer is None:
            await self._mount.forward(within, session, scope, receive, send)
        else:
            await send_response(answer, scope, receive, send, clock=session.clock)

    async def _finish(self, accepted: AcceptedCall, scope: Scope, receive: Receive, send: Send) -> None:
        if accepted.answer is not None:
            is_gone = accepted.session.is_explored and has_left(scope[TRANSPORT])
            async with accepted.in_order():
                is_sent = await send_response(accepted.answer, scope, receive, send, clock=accepted.session.clock)
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

    async def _body(self, receive: Receive, length: int) -> bytes:
        """Receive a body of `length` bytes; 0 means unknown."""
        pieces: list[bytes] = []
        size, has_more = 0, True
        try:
            self._check_size(length)
            while has_more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ConnectionError("the client left")
                pieces.append(message["body"])
                size += len(message["body"])
                self._received_bytes += len(message["body"])
                self._check_size(size)
                has_more = message["more_body"]
        finally:
            self._received_bytes -= size
        return b"".join(pieces)

    def _check_size(self, size: int) -> None:
        if size > self._limits.body_bytes:
            raise RefusedBodyError(413, f"the body is larger than {self._limits.body_bytes} bytes")
        if self._received_bytes > self._limits.all_bodies_bytes:
            raise RefusedBodyError(503, "too many bodies are being received; try again later")


def _refusal(scope: Scope, status: int, message: str) -> HttpResponse:
    path = split_session_path(scope["path"])[1]
    codec = route_of(scope["method"], path, header_dict(scope["headers"])).any_codec
    return refusal_response(codec, status, message)


READ_BYTES = 64 * 1024
_PROXY_VARIABLES = ("http_proxy", "all_proxy")


def no_proxy_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that keep clients from using a proxy for this machine, if one is set."""
    if not any(environment.get(name) or environment.get(name.upper()) for name in _PROXY_VARIABLES):
        return {}
    excluded = environment.get("no_proxy") or environment.get("NO_PROXY") or ""
    hosts = ",".join(filter(None, [excluded, LOOPBACK, "localhost"]))
    return {"no_proxy": hosts, "NO_PROXY": hosts}


class WireServer(CallInspection):
    """A server that stands in for OpenAI, Anthropic, Gemini and Ollama while its `with` block runs.

    `url` is its URL, without a trailing slash, and `bare_url` the same without the token. The base URL of OpenAI's
    clients is `url + "/v1"`. It listens on `listener` if given. If it `has_peers`, other processes also answer its
    sessions.

    A request must carry the server's `token`, which begins the path of `url`, or its `api_key`, if any. None, the
    default, is a new token if the server is live, because it then lends its credentials and writes a recording; a
    replay has none. An empty token lets every program of this machine use it.

    Raises:
        InputError: an option is invalid, a recording cannot be read, or the server cannot listen at the address.
    """

    def __init__(
        self,
        options: WireOptions,
        *,
        host: str = LOOPBACK,
        port: int = 0,
        api_key: str = "",
        token: str | None = None,
        mount: Mount | None = None,
        listener: socket | None = None,
        has_peers: bool = False,
        interception: Interception | None = None,
    ) -> None:
        if not is_loopback_name(host) and not api_key:
            hint = "anyone who can reach it could use it: set one by --api-key, or api_key=, and give it to the clients"
            raise InputError(f"listening at {host} requires an API key", source="host", hint=hint)
        upstreams = Upstreams(options.upstreams, keys=options.upstream_keys, clients_use_own_key=bool(api_key))
        self._options, self._api_key, self._listener_host = options, api_key, host
        super().__init__(WireBackend(options))
        try:
            self._listener = bind_socket(host, port) if listener is None else listener
            self.address: tuple[str, int] = self._listener.getsockname()[:2]
            self._proxy = self._proxy_to(upstreams)
        except InputError:
            self._backend.close()
            raise
        self._mount, self._interception = mount, interception
        self.token = self._token(token)
        name, port = self.address
        self.url = f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"
        self.bare_url, self.url = self.url, self.url + token_path(self.token)
        access = Access(
            api_key, token=self.token, bound_to=host, hosts=options.allow_hosts, origins=options.allow_origins
        )
        self._app = WireApp(
            self._backend.sessions, access=access, upstream=self._proxy, mount=mount, has_peers=has_peers
        )
        self._thread = self._thread_of(self._app)

    def _token(self, given: str | None) -> str:
        if self._api_key:
            return ""
        if given is not None:
            return given
        is_live = self.is_live or (self._mount is not None and self._mount.is_live)
        return new_token() if is_live else ""

    @property
    def is_on_all_interfaces(self) -> bool:
        """Whether the server listens at every address of this machine."""
        return self._listener_host in ALL_INTERFACES

    async def _start_mount(self) -> None:
        if self._mount is not None:
            await self._mount.start(self._backend.sessions)

    async def _close_parts(self) -> None:
        for part in (self._mount, self._proxy):
            if part is not None:
                await part.close()

    @property
    def mcp_names(self) -> Sequence[str]:
        return () if self._mount is None else self._mount.names

    @property
    def is_live(self) -> bool:
        """Whether calls that the recording does not answer go to the real APIs."""
        return self._backend.is_live

    @property
    def env(self) -> dict[str, str]:
        """The environment variables that point the vendors' SDKs at the server, with dummy keys.

        While recording, clients must send their own keys: only vendors in `upstream_keys` get a dummy key.
        """
        urls = base_url_variables(self.url) | token_variables(self.token)
        if self._api_key or not self._backend.is_live:
            return urls | api_key_variables(self._api_key or self.token or DUMMY_KEY)
        return urls | api_key_variables(vendors=self._options.upstream_keys or ())

    def session_url(self, name: str) -> str:
        """Return the URL of a session, to be used like `url`."""
        return self.url + session_prefix(name)

    def _proxy_to(self, upstreams: Upstreams) -> Proxy | None:
        if self._backend.recorder is None or not self._backend.is_live:
            return None
        port = self.address[1]
        vendor = upstreams.vendor_at(port)
        if vendor is not None:
            self._listener.close()
            reason = f"port {port} is the upstream of {vendor}: the server would forward calls to itself"
            raise InputError(reason, source="port", hint=f"use another port, or set upstreams: {vendor}")
        from offbook.wire.proxy.proxy import Proxy  # noqa: PLC0415 - only recording needs it

        return Proxy(
            upstreams,
            self._backend.recorder,
            timeout_s=self._options.upstream_timeout_s,
            end_wait_s=self._options.upstream_end_wait_s,
            model=self._options.live_model,
        )

    def _thread_of(self, app: WireApp) -> ServerThread:
        opened, buffer = OpenConnections(), memoryview(bytearray(READ_BYTES))
        return ServerThread(
            self._listener,
            partial(
                self._connection_type(),
                app,
                opened,
                arrivals=ArrivalOrder(),
                buffer=buffer,
            ),
            opened,
            limits=default_limits(files_a_connection=1 if self._proxy is None else 2),
            on_start=self._start_mount,
            on_stop=self._close_parts,
        )

    def listen_on(self, listener: socket) -> None:
        """Listen on another socket, in a process that was forked before the server was started."""
        self._listener = listener
        self._thread = self._thread_of(self._app)

    def share_sessions(self, group: str) -> None:
        """Share sessions with the servers of the group, before any of them has answered a call.

        Raises:
            InputError: an answer depends on earlier calls, and the recording is not in Redis. The server is stopped.
        """
        try:
            self._backend.share_sessions(group)
        except InputError:
            self._listener.close()
            self.stop()
            raise

    def _connection_type(self) -> Callable[..., DirectConnection]:
        """Return the factory of connections, which are also a proxy's if something is intercepted."""
        if self._interception is None:
            return DirectConnection
        from offbook.wire.intercept.proxy_connection import ProxyConnection  # noqa: PLC0415 - few servers need it

        open_to_all = Access(hosts=[ANY], origins=[ANY])  # who comes by CONNECT has proved to be of this run
        app = WireApp(self._backend.sessions, access=open_to_all, upstream=self._proxy)
        return partial(ProxyConnection, interception=self._interception, intercepted=app)

    def start(self) -> Self:
        self._thread.start()
        return self

    def call_soon(self, work: Callable[[], object]) -> None:
        """Run a function on the server's thread soon."""
        self._thread.call_soon(work)

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
