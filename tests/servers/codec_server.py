"""A real HTTP server on loopback that speaks the protocol of a codec."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import orjson

from offbook.codecs.base import Codec, WireRequest
from offbook.errors import ProviderError
from offbook.messages import Request, Response, deltas_of


class CodecServer(ThreadingHTTPServer):
    """Answers every POST with what `answer` makes of the request, or with the error it raises, inside its context.

    A streamed answer is one event for each delta; `asked` holds the requests.
    """

    daemon_threads = True

    def __init__(self, codec: Codec, answer: Callable[[Request], Response]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.codec, self.answer = codec, answer
        self.asked: list[Request] = []
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def __enter__(self) -> CodecServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: CodecServer

    def do_POST(self) -> None:
        body = orjson.loads(self.rfile.read(int(self.headers["content-length"])))
        codec, request = self.server.codec, self.server.codec.decode_request(WireRequest(self.path, body))
        self.server.asked.append(request)
        try:
            response = self.server.answer(request)
        except ProviderError as error:
            status_code = error.status_code or 500
            self._send(orjson.dumps(codec.encode_error(status_code, str(error))), status_code=status_code)
            return
        if request.stream:
            frames = codec.encode_stream(response, deltas_of(response))
            self._send(b"".join(frames), kind="text/event-stream")
        else:
            self._send(orjson.dumps(codec.encode_response(response)))

    def _send(self, data: bytes, *, kind: str = "application/json", status_code: int = 200) -> None:
        self.send_response(status_code)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""
