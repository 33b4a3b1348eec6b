"""A model on loopback that answers by a function, counts what it was asked, and can be made to hold its answers."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import orjson

from offbook.codecs.base import WireRequest
from offbook.codecs.openai_chat import OpenAIChatCodec
from offbook.messages import Request, Response, Usage

CODEC = OpenAIChatCodec()
TIMEOUT_S = 60


class ChatModel(ThreadingHTTPServer):
    """Answers OpenAI chat completions with what `answer` makes of the last message, inside its context.

    `answered` counts the answers by what was asked.
    """

    daemon_threads = True

    def __init__(self, answer: Callable[[str], Response]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer = answer
        self.answered: Counter[str] = Counter()
        self._held, self._holding = set[str](), set[str]()
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def hold(self, *asked: str) -> None:
        """From now on, leave these unanswered, and no others."""
        with self._changed:
            self._held, self._holding = set(asked), set()

    def wait_until_holding(self, *asked: str) -> None:
        """Wait until each of these has been asked, and is held."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._holding.issuperset(asked), TIMEOUT_S), self.answered

    def reply(self, request: Request) -> Response | None:
        """The answer to a request; None if it is held."""
        asked = str(request.messages[-1]["content"])
        with self._changed:
            if asked in self._held:
                self._holding.add(asked)
                self._changed.notify_all()
                return None
            self.answered[asked] += 1
        return self.answer(asked)

    def __enter__(self) -> ChatModel:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Pass over clients that were killed."""


class _Handler(BaseHTTPRequestHandler):
    server: ChatModel

    def do_POST(self) -> None:
        body = orjson.loads(self.rfile.read(int(self.headers["Content-Length"])))
        response = self.server.reply(CODEC.decode_request(WireRequest(self.path, body)))
        if response is None:
            self.rfile.read()
            return
        if response.finish_reason == "refused":
            self.send_error(400)
            return
        data = orjson.dumps(CODEC.encode_response(response))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def said(content: str = "", **fields: Any) -> Response:
    """An answer that costs ten tokens."""
    return Response(content=content, model="m", usage=Usage.of(4, 6), **fields)
