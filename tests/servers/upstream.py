"""A real HTTP server on loopback that stands for a vendor's, and does with each call whatever a test says."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

PATIENCE_S = 10.0
EVENTS = "text/event-stream"


class Received(NamedTuple):
    """What a call asked."""

    path: str
    headers: Message
    body: bytes


class Upstream(ThreadingHTTPServer):
    """Hands every call to `answer`, which may be changed at any time. `calls` holds them. Serves inside its context."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), UpstreamCall)
        self.answer: Callable[[UpstreamCall], None] = lambda call: call.whole(b"{}")
        self.calls: list[Received] = []
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def __enter__(self) -> Upstream:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


class UpstreamCall(BaseHTTPRequestHandler):
    """One call, and the ways to answer it."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Upstream

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except OSError:
            self.close_connection = True

    def _take(self) -> None:
        self.body = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.is_chunked = False
        self.server.calls.append(Received(self.path, self.headers, self.body))
        self.server.answer(self)
        if self.is_chunked and not self.close_connection:
            self.wfile.write(b"0\r\n\r\n")

    def do_GET(self) -> None:
        self._take()

    def do_POST(self) -> None:
        self._take()

    def do_HEAD(self) -> None:
        self._take()

    def whole(self, body: bytes, *, status: int = 200, content_type: str = "application/json", **headers: str) -> None:
        """A body with its length."""
        self.begin(status, content_type, content_length=str(len(body)), **headers)
        self.wfile.write(body)

    def stream(self, *frames: bytes, content_type: str = EVENTS, **headers: str) -> None:
        """A chunk for each frame, and the end."""
        self.begin(200, content_type, transfer_encoding="chunked", **headers)
        for frame in frames:
            self.chunk(frame)

    def begin(self, status: int, content_type: str, **headers: str) -> None:
        self.send_response(status)
        self.send_header("content-type", content_type)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.is_chunked = headers.get("transfer_encoding") == "chunked"

    def chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def cut(self) -> None:
        """Close the connection in the middle of the body."""
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def reset(self) -> None:
        """Reset the connection."""
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()

    def has_client_left(self) -> bool:
        """Wait for the client to hang up; whether it did."""
        self.connection.settimeout(PATIENCE_S)
        try:
            return self.connection.recv(1) == b""
        except TimeoutError:
            return False
        except ConnectionError:
            return True

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""
