"""A real HTTP server on loopback that answers GET with canned bytes."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PATIENCE_S = 10.0


def page(body: bytes | str, *, status: str = "200 OK", **headers: str) -> bytes:
    """An answer as it goes over the wire; a header's name has `_` for `-`."""
    body = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status}", *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body


class PageServer(ThreadingHTTPServer):
    """Answers with the page of the path, or says nothing until the client is gone. Serves inside its context.

    `asked` holds the path and headers of every request.
    """

    daemon_threads = True

    def __init__(self, pages: Mapping[str, bytes | None]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.pages = dict(pages)
        self.asked: list[tuple[str, dict[str, str]]] = []
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def url(self, path: str) -> str:
        return f"http://{self.host}{path}"

    def __enter__(self) -> PageServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: PageServer

    def do_GET(self) -> None:
        self.server.asked.append((self.path, dict(self.headers)))
        answer = self.server.pages[self.path]
        if answer is not None:
            self.wfile.write(answer)
        else:
            self.connection.settimeout(PATIENCE_S)
            self.connection.recv(1)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""
