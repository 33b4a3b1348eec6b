"""A server that intercepts, and clients of its proxy that hide nothing."""

import socket
import ssl
import threading
from base64 import b64encode
from contextlib import contextmanager

import pytest

from offbook.wire.intercept.interception import InterceptedHosts, Interception
from offbook.wire.options import WireOptions
from offbook.wire.server.wire_server import WireServer
from tests.wire.raw_client import RawClient

RESPONSES = {"a": {"content": "one two"}}


@contextmanager
def intercepting(*hosts, blocks=False, environment=None, **options):
    """A server that intercepts, and its interception."""
    options = options or {"responses": RESPONSES}
    environment = environment or {}
    interception = Interception(
        InterceptedHosts(hosts, environment=environment), blocks_network=blocks, environment=environment
    )
    with WireServer(WireOptions(**options), interception=interception) as server:
        yield server, interception


@pytest.fixture(scope="module")
def proxy():
    """A server that intercepts the vendors' hosts and `llm.test`."""
    with intercepting("llm.test") as (server, interception):
        yield server, interception


def credentials(interception, user="offbook"):
    return "Basic " + b64encode(f"{user}:{interception.token}".encode()).decode()


def connect_head(target, given):
    return f"CONNECT {target} HTTP/1.1\r\nhost: {target}\r\nproxy-authorization: {given}\r\n\r\n".encode()


class TlsClient(RawClient):
    """A client that has gone through the proxy to a host, and trusts its authority."""

    def __init__(self, server, interception, host, *, user="offbook", alpn=("http/1.1",)):
        super().__init__(server.url)
        self.send(connect_head(f"{host}:443", credentials(interception, user)))
        self.connected = self.hear()
        assert self.connected.status == 200
        context = ssl.create_default_context(cadata=interception.authority.pem.decode())
        context.set_alpn_protocols(list(alpn))
        self.socket = context.wrap_socket(self.socket, server_hostname=host)
        self.prefix = ""


class EchoServer:
    """Sends back what it receives, until its client ends; then it says `bye`."""

    def __enter__(self):
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        return self

    def _serve(self):
        connection, _ = self._listener.accept()
        with connection:
            while data := connection.recv(65536):
                connection.sendall(data)
            connection.sendall(b"bye")

    def __exit__(self, *_):
        self._thread.join(10)
        self._listener.close()
        assert not self._thread.is_alive()
