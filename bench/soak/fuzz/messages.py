"""Messages that come over a wire or from a model: requests, answers, streams, text with calls, text with secrets."""

from __future__ import annotations

import logging
import socket
from base64 import b64encode
from collections.abc import Iterator, Sequence
from random import Random
from zlib import crc32

import httpx2
import orjson

from bench.soak.fuzz.target import DefectError, Target
from offbook import Request, Response, StandIn, ToolCall, serving
from offbook.agent.rescue import rescue
from offbook.codecs.base import Codec
from offbook.errors import OffbookError
from offbook.messages import Usage, deltas_of
from offbook.recording.redact.rules import mask_json, mask_text
from offbook.vendors import CODECS
from offbook.wire.intercept.interception import InterceptedHosts, Interception
from offbook.wire.options import WireOptions
from offbook.wire.request import HttpRequest
from offbook.wire.server.wire_server import WireServer

TOOL = {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object", "properties": {}}}}
MESSAGES = (
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "found"},
)
REQUEST = Request(MESSAGES, "m", tools=(TOOL,), temperature=0.5, max_tokens=100)
RESPONSES = (
    Response("Hello, world.", "m", usage=Usage.of(4, 6), reasoning="Hm."),
    Response("", "m", tool_calls=(ToolCall("look_up", {"a": [1, 2]}, "c1"), ToolCall("look_up", {}, "c2"))),
)
RECORDING = {"_version": 2, "a": {"content": "one two", "tool_calls": [{"name": "look_up"}]}, "b": [{"content": "x"}]}
LOGGERS = ("offbook.wire", "offbook.wire.http", "asyncio")
PATIENCE_S = 5.0
CASES_A_SERVER = 100
PROXY_TOKEN = "token"
GOOD_SESSION = "untouched"
"""Of the calls that must be answered well: an input may be a request for faults in the session without a name."""


class ErrorLog(logging.Handler):
    """Keeps the errors that servers log."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self._messages: list[str] = []
        for name in LOGGERS:
            logging.getLogger(name).addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        self._messages.append(f"{record.getMessage()} {error!r}")

    def check(self) -> None:
        """Raise DefectError if an error was logged since the last check."""
        messages, self._messages = self._messages, []
        if messages:
            raise DefectError(f"logged {messages[0][:300]}")


def _streams(codec: Codec) -> list[bytes]:
    return [b"".join(codec.encode_stream(response, deltas_of(response))) for response in RESPONSES]


def _answers(codec: Codec) -> list[bytes]:
    return [orjson.dumps(codec.encode_response(response)) for response in RESPONSES]


class Streams(Target):
    """The body of a streamed answer in each protocol: it means the same however it is cut."""

    def valid_inputs(self) -> Sequence[bytes]:
        errors = [codec.encode_stream_error("overloaded") for codec in CODECS.values()]
        return [stream for codec in CODECS.values() for stream in _streams(codec)] + errors

    def feed(self, data: bytes) -> None:
        lot = Random(crc32(data))
        for codec in CODECS.values():
            whole, cut = _decoded(codec, [data]), _decoded(codec, list(_pieces(data, lot)))
            if whole != cut:
                raise DefectError(f"{codec.name}: {whole} as a whole, {cut} in pieces"[:500])


def _decoded(codec: Codec, pieces: Sequence[bytes]) -> object:
    """Return the response that the pieces decode to, or the kind of error."""
    decoder = codec.stream_decoder()
    try:
        for piece in pieces:
            list(decoder.feed(piece))
        return decoder.close()[1]
    except OffbookError as error:
        return type(error)


def _pieces(data: bytes, lot: Random) -> Iterator[bytes]:
    start = 0
    while start < len(data):
        end = start + lot.choice((1, 2, 10, 1000, 50_000))
        yield data[start:end]
        start = end


class Answers(Target):
    """The body of an answer, or of an error, in each protocol."""

    def valid_inputs(self) -> Sequence[bytes]:
        errors = [orjson.dumps(codec.encode_error(429, "slow down")) for codec in CODECS.values()]
        return [answer for codec in CODECS.values() for answer in _answers(codec)] + errors

    def feed(self, data: bytes) -> None:
        for codec in CODECS.values():
            codec.decode_error(data)
            try:
                codec.encode_response(codec.decode_response(data))
            except OffbookError:
                continue


class Requests(Target):
    """The body of a request to each endpoint, answered from a recording without a socket."""

    def valid_inputs(self) -> Sequence[bytes]:
        bodies = [(wire.path, wire.body) for codec in CODECS.values() for wire in [codec.encode_request(REQUEST)]]
        self._paths = [path.partition("?")[0] for path, _ in bodies]
        self._paths += ["/v1/embeddings", "/api/embed", "/api/show", "/v1/messages/count_tokens", "/v1/models"]
        self._errors = ErrorLog()
        return [orjson.dumps(body) for _, body in bodies]

    def feed(self, data: bytes) -> None:
        path = self._paths[crc32(data) % len(self._paths)]
        with StandIn(responses=RECORDING, strict=False) as stand_in:
            for headers in ({}, {"x-offbook-step": "a"}, {"content-encoding": "gzip"}):
                stand_in.accept(HttpRequest("POST", path, "alt=sse", headers, data))
        self._errors.check()


class Upstream(Target):
    """The answer of a hostile API, recorded through a client of ours and replayed."""

    def valid_inputs(self) -> Sequence[bytes]:
        codec = CODECS["openai_chat"]
        return [*_streams(codec), *_answers(codec), orjson.dumps(codec.encode_error(500, "no"))]

    def feed(self, data: bytes) -> None:
        path = self.folder / "run.json"
        path.unlink(missing_ok=True)
        live = httpx2.MockTransport(lambda _: _hostile(data))
        with StandIn(path, record="append") as stand_in, stand_in.sync_http_client(live) as client:
            seen = _read(client)
        with StandIn(path) as stand_in, stand_in.sync_http_client() as client:
            if _read(client) != seen:
                raise DefectError("the replay differs from what was recorded")


def _hostile(data: bytes) -> httpx2.Response:
    lot = Random(crc32(data))
    kinds = ("application/json", "text/event-stream", "application/x-ndjson", "text/html; charset=\xff", "", "\t;=")
    headers = {"content-type": lot.choice(kinds), "retry-after": lot.choice(("1", "-1", "1e400", "soon"))}
    if lot.random() < 0.1:
        headers["content-encoding"] = lot.choice(("identity", "nonsense"))
    return httpx2.Response(lot.choice((200, 200, 200, 204, 302, 429, 500, 599)), headers=headers, content=data)


def _read(client: httpx2.Client) -> tuple[int, bytes]:
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "stream": True}
    answer = client.post("https://api.openai.com/v1/chat/completions", json=body)
    return answer.status_code, answer.content


class Http(Target):
    """Bytes on a connection to a server, which must answer the next client as if nothing had been."""

    def valid_inputs(self) -> Sequence[bytes]:
        self._errors, self._fed = ErrorLog(), 0
        self._start()
        requests = [codec.encode_request(REQUEST) for codec in CODECS.values()]
        body = orjson.dumps(requests[0].body)
        self._good = _http("POST", f"/s/{GOOD_SESSION}{requests[0].path}", body)
        others = [_http("POST", wire.path, orjson.dumps(wire.body)) for wire in requests]
        return [self._good * 2, *others, *HTTP]

    def feed(self, data: bytes) -> None:
        self._fed += 1
        if self._fed % CASES_A_SERVER == 0:
            self.close()
            self._start()
        if b"Traceback" in (answer := self._exchange(data)):
            raise DefectError(f"answered {answer[:300]!r}")
        if b"200 OK" not in (answer := self._exchange(self._good))[:20]:
            raise DefectError(f"the next call is answered {answer[:300]!r}")
        self._errors.check()

    def close(self) -> None:
        self._server.__exit__(None, None, None)

    def _start(self) -> None:
        """Start a server: one that has been asked for long remembers it."""
        self._server = self._new_server()
        self._server.__enter__()
        self._port = int(self._server.url.rpartition(":")[2])

    def _new_server(self) -> WireServer:
        return serving(responses=RECORDING, strict=False)

    def _exchange(self, data: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", self._port), timeout=PATIENCE_S) as connection:
            answer = b""
            try:
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
                while piece := connection.recv(65_536):
                    answer += piece
            except TimeoutError:
                raise DefectError("a connection whose client has said all stays open") from None
            except OSError:
                return answer
            return answer


class Proxy(Http):
    """Bytes on a connection to a server that intercepts: requests to a proxy, and what comes behind them."""

    def valid_inputs(self) -> Sequence[bytes]:
        ordinary = super().valid_inputs()
        key = b64encode(f"offbook:{PROXY_TOKEN}".encode())
        fields = b"host: a\r\nproxy-authorization: Basic %b\r\n\r\n" % key
        starts = [
            b"CONNECT api.openai.com:443",
            b"CONNECT example.org:443",
            b"CONNECT 127.0.0.1:1",
            b"GET http://a.test/x",
        ]
        return [*ordinary[:2], *(b"%b HTTP/1.1\r\n%b" % (start, fields) for start in starts)]

    def _new_server(self) -> WireServer:
        interception = Interception(InterceptedHosts(), blocks_network=True)
        interception.token = PROXY_TOKEN
        return WireServer(WireOptions(responses=RECORDING, strict=False), interception=interception)


def _http(method: str, path: str, body: bytes = b"", *headers: str) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "host: 127.0.0.1", f"content-length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


HTTP = (
    _http("GET", "/v1/models"),
    _http("GET", "/_offbook/sessions"),
    _http("PUT", "/_offbook/sessions/x", b'{"faults": ["call=1: http_error 500"]}', "content-type: application/json"),
    _http("DELETE", "/_offbook/sessions/x"),
    _http("POST", "/s/x/v1/chat/completions", b'{"model": "m", "messages": []}', "expect: 100-continue"),
    _http("OPTIONS", "*"),
    b"POST /v1/responses HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    b"GET /v1/models HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n",
)


class CallsInText(Target):
    """Text of a model that may hold tool calls."""

    def valid_inputs(self) -> Sequence[bytes]:
        return TEXTS

    def feed(self, data: bytes) -> None:
        rescue(data.decode("utf-8", "replace"), {"look_up", "refund"})


TEXTS = (
    b'<tool_call>{"name": "look_up", "arguments": {"a": [1, 2]}}</tool_call>',
    b'```json\n{"name": "look_up", "parameters": {"order": "42"}}\n```',
    b'<think>Hm.</think>[look_up(a=1, b="x"), refund(order=42)]',
    b"<function=look_up><parameter=a>1</parameter></function>",
    b'[TOOL_CALLS][{"name": "look_up", "arguments": {}}]',
    b'<|python_tag|>look_up(a={"b": [true, None]})',
)


class Secrets(Target):
    """Text and JSON that may hold secrets: masked in time that is linear in its length."""

    def valid_inputs(self) -> Sequence[bytes]:
        long = b'{"password": "' + b"a" * 3000 + b'", "b": "sk-' + b"aB3dE6gH9" * 300 + b'"}'
        return [*TEXTS, *SECRETS, long, b"-----BEGIN RSA PRIVATE KEY-----\n" + b"A" * 3000, b"eyJ" + b"a.eyJ" * 800]

    def feed(self, data: bytes) -> None:
        text = data.decode("utf-8", "replace")
        masked = mask_text(text)
        if mask_text(masked) != masked:
            raise DefectError("what is masked is masked again")
        mask_json({"content": text, text[:200]: [text]})


_MIX = b"aB3dE6gH9jK2mN5p"
SECRETS = (
    b"the key is sk-" + _MIX * 3 + b", and the token gh" + b"p_" + _MIX * 2,
    b'{"api_key": "' + _MIX + b'", "nested": "{\\"password\\": \\"hunter2\\"}"}',
    b"authorization: Bearer " + _MIX + b"\nurl: postgres://user:pass@host/db?token=" + _MIX,
)
