"""A real HTTP server on loopback that begins to answer and then says nothing until its client is gone."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PATIENCE_S = 10.0


class SilentServer(ThreadingHTTPServer):
    """Answers every POST with `frames` as an event stream, or not even with a head if None. Serves inside its context.

    `asked` can be acquired once for each request that came, `left` for each client that hung up after it.
    """

    daemon_threads = True

    def __init__(self, frames: Sequence[bytes] | None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.frames = frames
        self.asked, self.left = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def __enter__(self) -> SilentServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: SilentServer

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        if self.server.frames is not None:
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            for frame in self.server.frames:
                self.wfile.write(frame)
        self.server.asked.release()
        self.connection.settimeout(PATIENCE_S)
        try:
            is_gone = self.connection.recv(1) == b""
        except TimeoutError:
            is_gone = False
        except ConnectionError:
            is_gone = True
        if is_gone:
            self.server.left.release()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""
