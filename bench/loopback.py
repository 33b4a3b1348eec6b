"""A real HTTP server on loopback, in a thread."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self


class LoopbackServer(ThreadingHTTPServer):
    """Answers each body it knows with the one that belongs to it. Serves while it is entered."""

    daemon_threads = True

    def __init__(self, answers: dict[bytes, bytes]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers = answers
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    server: LoopbackServer

    def do_POST(self) -> None:
        answer = self.server.answers[self.rfile.read(int(self.headers["content-length"]))]
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""
