"""A model for examples: a loopback server that speaks OpenAI chat completions and needs no key."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import ClassVar, TypeAlias

import orjson

from offbook.codecs.base import WireRequest
from offbook.codecs.openai_chat import CODEC
from offbook.messages import Request, Response, TextDelta, Usage

Model: TypeAlias = Callable[[Request], Response]


ANSWERS = {
    "capital": "The capital of France is Paris.",
    "poem": "Roses are red,\nviolets are blue,\ntests replayed offline\nare tests that stay true.",
}


def answer(request: Request) -> Response:
    """Answer with the line for the first known word in the last message."""
    prompt = str(request.messages[-1]["content"])
    content = next((text for word, text in ANSWERS.items() if word in prompt), "I do not know.")
    usage = Usage.of(len(prompt.split()), len(content.split()))
    return Response(content=content, model=request.model, usage=usage)


class _Handler(BaseHTTPRequestHandler):
    model: ClassVar[Model]

    def do_POST(self) -> None:
        body = orjson.loads(self.rfile.read(int(self.headers["Content-Length"])))
        request = CODEC.decode_request(WireRequest(self.path, body))
        response = type(self).model(request)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream" if request.stream else "application/json")
        self.end_headers()
        if request.stream:
            words = [TextDelta(word + " ") for word in response.content.split(" ")]
            for frame in CODEC.encode_stream(response, words):
                self.wfile.write(frame)
        else:
            self.wfile.write(orjson.dumps(CODEC.encode_response(response)))

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@contextmanager
def serving(model: Model = answer) -> Iterator[str]:
    """Serve the model until the block ends; yields its base URL."""
    handler = type("Handler", (_Handler,), {"model": staticmethod(model)})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
