"""A tunnel that passes bytes between a client and a host, without a look at them."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import Callable, Mapping
from urllib.parse import SplitResult, unquote, urlsplit

CONNECT_TIMEOUT_S = 10.0
MAX_ANSWER_BYTES = 64 * 1024


class TunnelError(Exception):
    """A host that cannot be reached, with the corresponding status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class TunnelEnd(asyncio.Protocol):
    """One end of a tunnel: it writes received data to the `other` transport, and waits if that is full.

    A connection made for it is not read before `resume_reading`. If one side ends, the other direction stays open until
    it also ends. `peer` is the other end, if any.
    """

    def __init__(self, other: asyncio.Transport, *, on_lost: Callable[[], object] = lambda: None) -> None:
        self.other, self._on_lost = other, on_lost
        self.peer: TunnelEnd | None = None
        self.has_ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.pause_reading()

    def data_received(self, data: bytes) -> None:
        if not self.other.is_closing():
            self.other.write(data)

    def eof_received(self) -> bool:
        self.has_ended = True
        if self.peer is not None and self.peer.has_ended:
            return False
        if not self.other.is_closing():
            self.other.write_eof()
        return True

    def pause_writing(self) -> None:
        if not self.other.is_closing():
            self.other.pause_reading()

    def resume_writing(self) -> None:
        if not self.other.is_closing():
            self.other.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self.other.close()
        self._on_lost()


def join_ends(client: asyncio.Transport, host: asyncio.Transport, *, on_lost: Callable[[], object]) -> None:
    """Pass bytes between two transports from now on. `on_lost` is called when the client's closes."""
    to_host, to_client = TunnelEnd(host, on_lost=on_lost), host.get_protocol()
    assert isinstance(to_client, TunnelEnd)
    to_host.peer, to_client.peer = to_client, to_host
    client.set_protocol(to_host)
    for transport in (client, host):
        transport.resume_reading()


async def open_tunnel(
    client: asyncio.Transport, host: str, port: int, *, scheme: str, environment: Mapping[str, str]
) -> asyncio.Transport:
    """Connect to a host, through the proxy that `environment` names for the scheme, if any.

    Data from there is written to `client`, from `join_ends` on.

    Raises:
        TunnelError: it cannot be reached.
    """
    proxy = outer_proxy(scheme, host, environment)
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            if proxy is None:
                transport, _ = await asyncio.get_running_loop().create_connection(lambda: TunnelEnd(client), host, port)
                return transport
            return await _connect_through(proxy, client, f"{host}:{port}")
    except TimeoutError:
        raise TunnelError(504, f"{host}:{port} cannot be reached in time") from None
    except OSError as error:
        raise TunnelError(502, f"{host}:{port} cannot be reached: {error.strerror or error}") from None


def outer_proxy(scheme: str, host: str, environment: Mapping[str, str]) -> SplitResult | None:
    """Return the proxy that clients use for a host according to `environment`, or None."""
    names = (f"{scheme}_proxy", f"{scheme}_proxy".upper(), "all_proxy", "ALL_PROXY")
    url = next(filter(None, map(environment.get, names)), "")
    excluded = environment.get("no_proxy") or environment.get("NO_PROXY") or ""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if not url or parts.hostname is None or any(_matches(host, item.strip()) for item in excluded.split(",")):
        return None
    return parts


def _matches(host: str, item: str) -> bool:
    name = item.lower().lstrip(".")
    return item == "*" or (bool(name) and (host == name or host.endswith(f".{name}")))


async def _connect_through(proxy: SplitResult, client: asyncio.Transport, target: str) -> asyncio.Transport:
    """Connect to a target by a CONNECT of our own.

    Raises:
        TunnelError: the proxy refuses.
        OSError: the proxy cannot be reached.
    """
    if proxy.scheme != "http":
        raise TunnelError(502, f"only http:// proxies are supported to reach {target}, not {proxy.scheme}://")
    assert proxy.hostname is not None
    greeting = _ProxyGreeting()
    transport, _ = await asyncio.get_running_loop().create_connection(
        lambda: greeting, proxy.hostname, proxy.port or 80
    )
    lines = [f"CONNECT {target} HTTP/1.1", f"host: {target}"]
    if proxy.username is not None:
        user = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
        lines.append(f"proxy-authorization: Basic {b64encode(user.encode()).decode()}")
    transport.write("\r\n".join([*lines, "", ""]).encode("latin-1", "replace"))
    try:
        await greeting.answer
    except BaseException:
        transport.abort()
        raise
    transport.set_protocol(TunnelEnd(client))
    return transport


class _ProxyGreeting(asyncio.Protocol):
    """Reads only a proxy's answer to a CONNECT. A host that speaks first is refused."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, end, rest = self._received.partition(b"\r\n\r\n")
        if self.answer.done() or (not end and len(self._received) <= MAX_ANSWER_BYTES):
            return
        self._transport.pause_reading()
        status = head.split(b" ", 2)[1:2]
        if end and not rest and status and status[0].startswith(b"2"):
            self.answer.set_result(None)
        else:
            shown = status[0][:3].decode("latin-1") if status else "nothing that is HTTP"
            self.answer.set_exception(TunnelError(502, f"the proxy of this machine answered {shown}"))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.answer.done():
            self.answer.set_exception(exc or ConnectionResetError("the proxy of this machine closed the connection"))
