"""A scripted model, in every protocol: it calls a tool of the agent once, and then says that it is done."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from offbook.codecs.base import Codec
from offbook.messages import JsonObject, Request, Response, ToolCall, Usage, deltas_of, tool_results
from offbook.wire.request import HttpRequest, parse_request
from offbook.wire.response import encode_model_response

USAGE = Usage(100, 10)


def answer(request: Request, calls: dict[str, JsonObject], says: str) -> Response:
    """Return a call of the first tool of `calls` that is offered, once a conversation; else what the model `says`."""
    offered = {_name(tool) for tool in request.tools or ()}
    is_called = any(True for _ in tool_results(request.messages))
    name = next((name for name in calls if name in offered), "")
    if name and not is_called:
        call = ToolCall(name, calls[name], "call_hello")
        return Response("", request.model, tool_calls=(call,), finish_reason="tool_calls", usage=USAGE)
    return Response(says, request.model, usage=USAGE)


def _name(tool: JsonObject) -> str:
    function = tool.get("function")
    return str(function.get("name") if isinstance(function, dict) else tool.get("name"))


@contextmanager
def serving_model(calls: dict[str, JsonObject], says: str) -> Iterator[str]:
    """Serve the model on loopback; yields its address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            path, _, query = self.path.partition("?")
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            parsed = parse_request(HttpRequest(self.command, path, query, headers, body))
            codec: Codec | None = parsed.route.codec
            if parsed.request is None or codec is None:
                self._send(404, {"content-type": "application/json"}, b'{"error": {"message": "not found"}}')
                return
            said = answer(parsed.request, calls, says)
            encoded = encode_model_response(said, deltas_of(said), parsed, codec)
            self._send(200, encoded.headers, encoded.content)

        do_GET = do_HEAD = do_POST  # noqa: N815

        def _send(self, status: int, headers: dict[str, str], body: bytes) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body if self.command != "HEAD" else b"")

        def log_message(self, *_: Any) -> None:
            pass

        def handle(self) -> None:
            with suppress(ConnectionError):  # a program that ends does not wait for its answers
                super().handle()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
