"""A real HTTP server on loopback, in a thread, that answers every POST with one canned body."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class LoopbackServer(ThreadingHTTPServer):
    """Keeps connections alive and counts them.

    `answer` is the body of every answer, sent as it is with `content_type`. While `gate` is cleared,
    answers wait. Use as a context manager: it serves inside and is gone after.
    """

    daemon_threads = True

    def __init__(self, answer: bytes, *, content_type: str = "application/json") -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer, self.content_type = answer, content_type
        self.connections = 0
        self.requests = 0
        self.gate = threading.Event()
        self.gate.set()
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def __enter__(self) -> LoopbackServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.gate.set()
        self.shutdown()
        self._thread.join()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    server: LoopbackServer

    def setup(self) -> None:
        super().setup()
        self.server.connections += 1

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.server.requests += 1
        self.server.gate.wait()
        self.send_response(200)
        self.send_header("content-type", self.server.content_type)
        self.send_header("content-length", str(len(self.server.answer)))
        self.end_headers()
        self.wfile.write(self.server.answer)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""
