"""The real HTTP server on loopback that tests talk to: it does with each call whatever a test says."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Sequence
from email.message import Message
from http.server import BaseHTTPRequestHandler
from typing import NamedTuple, Self

PATIENCE_S = 10.0
"""How long a test waits for what must come, before it fails."""

EVENTS = "text/event-stream"


class Received(NamedTuple):
    """The request of a call."""

    path: str
    headers: Message
    body: bytes


class LoopbackServer:
    """Serves inside its context, a thread for each connection. Leaving it ends connections and threads.

    `answer` is the body of every answer, as JSON, or a function that answers a call; it may be changed at any time.
    `calls` holds the requests, `connections` counts the connections. An error of `answer` is raised on leaving;
    clients that go away are none.
    """

    def __init__(self, answer: bytes | Callable[[ServerCall], None] = b"{}") -> None:
        self.answer = answer
        self.calls: list[Received] = []
        self.connections = 0
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = self._listener.getsockname()[1]
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._open: list[tuple[socket.socket, threading.Thread]] = []
        self._errors: list[Exception] = []
        self._is_leaving = False

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"http://{self.host}"

    def __enter__(self) -> Self:
        self._accepting.start()
        return self

    def __exit__(self, kind: type[BaseException] | None = None, *_: object) -> None:
        self._is_leaving = True
        socket.create_connection(("127.0.0.1", self.port)).close()
        self._accepting.join()
        self._listener.close()
        for connection, thread in self._open:
            _shut_down(connection)
            thread.join(PATIENCE_S)
            assert not thread.is_alive(), "a call is still being answered"
        if kind is None and self._errors:
            raise self._errors[0]

    def _accept(self) -> None:
        while True:
            connection, address = self._listener.accept()
            if self._is_leaving:
                connection.close()
                return
            self.connections += 1
            thread = threading.Thread(target=self._serve, args=(connection, address), daemon=True)
            self._open.append((connection, thread))
            thread.start()

    def _serve(self, connection: socket.socket, address: object) -> None:
        with connection:
            try:
                ServerCall(connection, address, self)  # type: ignore[arg-type]
            except OSError:
                pass
            except Exception as error:
                self._errors.append(error)
            _shut_down(connection)


def _shut_down(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        """It is closed."""


class ServerCall(BaseHTTPRequestHandler):
    """One call, and the ways to answer it."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: LoopbackServer  # type: ignore[assignment]

    def _take(self) -> None:
        self.body = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.is_chunked = False
        self.server.calls.append(Received(self.path, self.headers, self.body))
        answer = self.server.answer
        if isinstance(answer, bytes):
            self.whole(answer)
        else:
            answer(self)
        if self.is_chunked and not self.close_connection:
            self.wfile.write(b"0\r\n\r\n")

    def do_GET(self) -> None:
        self._take()

    def do_HEAD(self) -> None:
        self._take()

    def do_POST(self) -> None:
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

    def raw(self, data: bytes) -> None:
        """These bytes and no others."""
        self.close_connection = True
        self.wfile.write(data)

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
        """Wait for the client to hang up, or for the server to end; False if the client says more instead."""
        self.close_connection = True
        try:
            return self.connection.recv(1) == b""
        except ConnectionError:
            return True

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


class SilentServer(LoopbackServer):
    """Answers every call with `frames` as an event stream, or not even with a head if None, and then says nothing.

    `asked` can be acquired once for each request that came, `left` for each client that hung up after it.
    """

    def __init__(self, frames: Sequence[bytes] | None) -> None:
        super().__init__(self._begin)
        self.frames = frames
        self.requested, self.left = threading.Semaphore(0), threading.Semaphore(0)

    def _begin(self, call: ServerCall) -> None:
        if self.frames is not None:
            call.stream(*self.frames)
        self.requested.release()
        if call.has_client_left():
            self.left.release()
