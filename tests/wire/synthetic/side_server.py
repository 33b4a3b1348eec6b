"""A real HTTP server on loopback that answers the endpoints beside the model calls, and nothing else."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import orjson

from offbook.errors import RequestError
from offbook.messages import JsonObject
from offbook.wire.request import ApiRoute, route_of
from offbook.wire.synthetic import embeddings_answer, models_answer, token_count_answer


class SideServer(ThreadingHTTPServer):
    """Serves the models `names` inside its context; what is not there is a 404, what is not right a 400."""

    daemon_threads = True

    def __init__(self, *names: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.names = names
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def __enter__(self) -> SideServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()

    def answer(self, route: ApiRoute, path: str, body: JsonObject) -> JsonObject | None:
        if route.operation == "embed":
            return embeddings_answer(route.vendor, path, body)
        if route.operation == "count_tokens":
            return token_count_answer(route.vendor, body)
        return models_answer(route.vendor, path, self.names, body=body)


class _Handler(BaseHTTPRequestHandler):
    server: SideServer

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = orjson.loads(self.rfile.read(int(headers.get("content-length", 0))) or b"{}")
        route = route_of(self.command, path, headers)
        try:
            answer, status_code = self.server.answer(route, path, body), 200
        except RequestError as error:
            answer, status_code = route.vendor_codec.encode_error(400, str(error)), 400
        if answer is None:
            answer, status_code = route.vendor_codec.encode_error(404, "no such model"), 404
        self._send(orjson.dumps(answer), status_code)

    def do_POST(self) -> None:
        self.do_GET()

    def _send(self, data: bytes, status_code: int) -> None:
        self.send_response(status_code)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""
