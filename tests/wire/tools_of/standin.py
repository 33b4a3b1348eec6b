"""Stands in for the server that is asked about the calls of tools: it lets them run and notes them, or answers them."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Recorded:
    """The calls of a run, in the order in which they began, each with its result or its error."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []
        self.notes: list[dict[str, str]] = []
        self.is_replayed = False
        self.unanswered: list[dict[str, Any]] = []
        self._lock = threading.Lock()

    def answer(self, message: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            self.notes += message.pop("notes", [])
            if "call" in message:
                self.calls[message.pop("call")]["ending"] = message
                return {}
            if "tool" not in message:
                return {}
            if not self.is_replayed:
                self.calls.append(message)
                return {"run": len(self.calls) - 1}
            for call in self.calls:
                if not call.get("is_used") and all(call[key] == message[key] for key in ("tool", "arguments")):
                    call["is_used"] = True
                    return call["ending"]
            self.unanswered.append(message)
            return {"refused": True, "error": {"type": "Refused", "message": f"not recorded: {message}"}}


@contextmanager
def answering(recorded: Recorded) -> Iterator[str]:
    """Answer calls of tools from here on; yields the URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            message = json.loads(self.rfile.read(int(self.headers["content-length"])))
            body = json.dumps(recorded.answer(message)).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/_offbook/tools"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
