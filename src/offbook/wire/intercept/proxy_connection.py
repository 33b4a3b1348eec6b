"""The proxy of a run: connections to a host, by CONNECT or by a whole URL, are answered, passed or refused."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from offbook.wire.backend import SESSION_HEADER
from offbook.wire.intercept.interception import Interception
from offbook.wire.intercept.tunnel import TunnelError, join_ends, open_tunnel
from offbook.wire.proxy.upstream import ORIGIN
from offbook.wire.server.connection import REQUEST_LIMITS, DirectApplication, DirectConnection, OpenConnections, Phase

if TYPE_CHECKING:
    from offbook.wire.server.wire_server import WireApp

HANDSHAKE_TIMEOUT_S = 30.0
_ORDINARY = re.compile(rb"[A-Za-z]+ [/*]")
_UNDECIDED = re.compile(rb"[A-Za-z]{1,20}( (h(t(t(p(:(/(/[^\r\n]*)?)?)?)?)?)?)?)?")
_PROXIED = re.compile(rb"(CONNECT [^/*]|[A-Z]+ http://)")
_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_AUTHORITY = re.compile(r"(?P<host>\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:(?P<port>[0-9]{1,5}))?", re.IGNORECASE)
_HOP_BY_HOP = (b"connection", b"proxy-authorization", b"proxy-connection", b"keep-alive")


class ProxyRequest(Struct, frozen=True):
    """A request to a proxy. `target` is empty for CONNECT; else it is the path with the query."""

    method: bytes
    host: str
    port: int
    target: bytes
    headers: list[tuple[bytes, bytes]]

    @property
    def is_connect(self) -> bool:
        return self.method == b"CONNECT"

    @property
    def scheme(self) -> str:
        return "https" if self.is_connect else "http"

    @property
    def credentials(self) -> str:
        return dict(self.headers).get(b"proxy-authorization", b"").decode("latin-1")

    def origin_head(self) -> bytes:
        """Return the head that the host itself gets, on a connection for this request alone."""
        sent = [b"%b: %b" % header for header in self.headers if header[0] not in _HOP_BY_HOP]
        lines = [b"%b %b HTTP/1.1" % (self.method, self.target), *sent, b"connection: close", b"", b""]
        return b"\r\n".join(lines)


def parse_proxy_head(head: bytes) -> ProxyRequest:
    """Parse a head without its empty line.

    Raises:
        ValueError: it is malformed.
    """
    line, *fields = head.split(b"\r\n")
    method, target, version = line.split(b" ")
    if version not in (b"HTTP/1.1", b"HTTP/1.0"):
        raise ValueError("the version is not HTTP/1")
    headers = [_parse_field(field) for field in fields]
    if method == b"CONNECT":
        host, port = _parse_authority(target, default_port=None)
        return ProxyRequest(method, host, port, b"", headers)
    authority, slash, path = target.removeprefix(b"http://").partition(b"/")
    host, port = _parse_authority(authority, default_port=80)
    return ProxyRequest(method, host, port, slash + path or b"/", headers)


def _parse_field(field: bytes) -> tuple[bytes, bytes]:
    name, colon, value = field.partition(b":")
    if not colon or not _NAME.fullmatch(name) or b"\n" in value or b"\r" in value or b"\0" in value:
        raise ValueError("a header is malformed")
    return name.lower(), value.strip(b" \t")


def _parse_authority(authority: bytes, *, default_port: int | None) -> tuple[str, int]:
    found = _AUTHORITY.fullmatch(authority.decode("ascii"))
    port = default_port if found is None or found["port"] is None else int(found["port"])
    if found is None or port is None or not 0 < port <= 65_535:
        raise ValueError("the target is not a host with a port")
    return found["host"].strip("[]").lower().removesuffix("."), port


class InterceptedConnection(DirectConnection):
    """A connection whose client takes us for the host `origin`. Its requests belong to a session.

    Calls are recorded from `origin`. Data that arrives before `connection_made` waits: a client may send its first
    request with the end of the handshake.
    """

    def __init__(self, *parts: Any, origin: str, session: str, **more: Any) -> None:
        super().__init__(*parts, **more)
        self._origin, self._session = origin, session.encode("latin-1", "replace")
        self._early: bytes | None = b""
        self._is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        early, self._early = self._early, None
        if self._is_lost:
            super().connection_lost(None)
        elif early:
            self.data_received(early)

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = True
        if self._early is None:
            super().connection_lost(exc)

    def buffer_updated(self, nbytes: int) -> None:
        if self._early is None:
            super().buffer_updated(nbytes)
        else:
            self._early += bytes(self._buffer[:nbytes])

    def on_message_begin(self) -> None:
        super().on_message_begin()
        assert self.scope is not None
        self.scope[ORIGIN] = self._origin

    def _take_token(self) -> None:
        """Keep the path, which is the other host's. The proxy has already authenticated the client."""

    def on_headers_complete(self) -> None:
        name = SESSION_HEADER.encode()
        if self._session and all(header[0] != name for header in self.headers):
            self.headers.append((name, self._session))
        super().on_headers_complete()


class ProxyConnection(DirectConnection):
    """A connection of a server that is also a proxy. Its first bytes show the kind.

    Only clients of this run may use the proxy; others get a 407. Requests to an intercepted host are handled by
    `intercepted` as if they came to that host.
    """

    def __init__(
        self,
        application: DirectApplication,
        open_connections: OpenConnections,
        *,
        interception: Interception,
        intercepted: WireApp,
        **more: Any,
    ) -> None:
        super().__init__(application, open_connections, **more)
        self._interception, self._intercepted = interception, intercepted
        self._head: bytes | None = b""
        self._is_proxied = False

    @property
    def phase(self) -> Phase:
        return "response" if self._is_proxied else super().phase

    @property
    def waits_for_client(self) -> bool:
        return not self._is_proxied and super().waits_for_client

    def data_received(self, data: bytes) -> None:
        if self._head is None:
            super().data_received(data)
            return
        self._head += data
        if _ORDINARY.match(self._head) or not (_PROXIED.match(self._head) or _UNDECIDED.fullmatch(self._head)):
            data, self._head = self._head, None
            super().data_received(data)
            return
        head, end, rest = self._head.partition(b"\r\n\r\n")
        if len(head) > REQUEST_LIMITS.header_bytes:
            self.refuse(431, "the headers are too large")
        elif end and not self._is_proxied:
            self._start(head, rest)

    def _start(self, head: bytes, rest: bytes) -> None:
        """Execute the request in the head, if it is allowed."""
        self._is_proxied = True
        self.flow.pause_reading()
        try:
            request = parse_proxy_head(head)
        except ValueError:
            self.refuse(400, "this is not a request to a proxy")
            return
        client, server = (self.transport.get_extra_info(name)[:2] for name in ("peername", "sockname"))
        session = self._interception.session_of(request.credentials, client=client, server=server)
        if session is None:
            self._refuse_stranger()
        elif request.is_connect and rest:
            self.refuse(400, "wait for the answer to CONNECT")
        else:
            self._go_on(request, session, rest)

    def _refuse_stranger(self) -> None:
        body = b"this proxy is for the programs of one run of offbook"
        head = b'HTTP/1.1 407 Proxy Authentication Required\r\nproxy-authenticate: Basic realm="offbook"\r\n'
        head += b"content-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(
            body
        )
        self.transport.write(head + body)
        self.transport.close()

    def _go_on(self, request: ProxyRequest, session: str, rest: bytes) -> None:
        match self._interception.decide(request.host, request.port):
            case "refuse":
                self.refuse(403, f"{request.host} is refused: this run of offbook has block_network")
            case "pass":
                self._start_task(self._pass(request, rest))
            case "answer" if request.is_connect:
                self._start_task(self._answer_in_tls(request, session))
            case "answer":
                self._answer_plainly(request, session, rest)

    def _start_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(self._open.tasks.discard)
        self._open.tasks.add(task)

    async def _pass(self, request: ProxyRequest, rest: bytes) -> None:
        """Open a tunnel to the host."""
        environment = self._interception.environment
        try:
            host = await open_tunnel(
                self.transport, request.host, request.port, scheme=request.scheme, environment=environment
            )
        except TunnelError as error:
            self.refuse(error.status, str(error))
            return
        if self.transport.is_closing():
            host.abort()
            return
        if request.is_connect:
            self.transport.write(b"HTTP/1.1 200 Connection Established\r\n\r\n")
        else:
            host.write(request.origin_head() + rest)
        join_ends(self.transport, host, on_lost=self._forget)

    async def _answer_in_tls(self, request: ProxyRequest, session: str) -> None:
        """Be the host for the client, with a certificate of the authority of this run."""
        interception, loop = self._interception, asyncio.get_running_loop()
        assert interception.authority is not None
        try:
            context = interception.authority.context_for(request.host)
        except ValueError:
            self.refuse(400, "no certificate can name this host")
            return
        connection = self._as_host(request, session)
        self.transport.write(b"HTTP/1.1 200 Connection Established\r\n\r\n")
        try:
            transport = await loop.start_tls(
                self.transport, connection, context, server_side=True, ssl_handshake_timeout=HANDSHAKE_TIMEOUT_S
            )
        except (OSError, ssl.SSLError):
            interception.distrusted[f"{request.host}:{request.port}"] += 1
        else:
            if transport is not None:
                connection.connection_made(transport)
        finally:
            self._forget()

    def _answer_plainly(self, request: ProxyRequest, session: str, rest: bytes) -> None:
        connection = self._as_host(request, session)
        self.transport.set_protocol(connection)
        connection.connection_made(self.transport)
        self._forget()
        self.flow.resume_reading()
        connection.data_received(request.origin_head() + rest)

    def _as_host(self, request: ProxyRequest, session: str) -> InterceptedConnection:
        app, hosts = self._intercepted, self._interception.hosts
        assert hosts is not None
        return InterceptedConnection(
            app,
            self._open,
            arrivals=self._arrivals,
            buffer=self._buffer,
            origin=hosts.origin(request.scheme, request.host, request.port),
            session=session,
        )

    def _forget(self) -> None:
        """Leave the server's connections: another protocol has the transport now, or it is closed."""
        self._open.connections.discard(self)
