"""Intruders at a server that records: foreign pages, paths that lead out, smuggled requests, crowds that send nothing.

A loss is a request that got through, a call of an honest client that did not, a descriptor that stays open, or memory
that grows.
"""

from __future__ import annotations

import http.client
import http.server
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import orjson

from bench.soak.front import Outcome, rounds
from bench.soak.memory import Sample, growth, sample
from offbook import serving
from offbook.wire.server.access import token_path
from offbook.wire.server.wire_server import WireServer

CROWD = 200
PATIENCE_S = 10.0
ROUNDS_A_SAMPLE = 20
BODY = orjson.dumps({"model": "m", "messages": [{"role": "user", "content": "Hi"}]})
FOREIGN_HEADERS = (
    {"host": "evil.test"},
    {"host": "127.0.0.1.evil.test:80"},
    {"host": "localhost:80@evil.test"},
    {"origin": "https://evil.test"},
    {"origin": "null"},
    {"sec-fetch-site": "cross-site"},
)
WAYS_OUT = ("/..", "/%2e%2e", "/.%2E", "/..;x", "\\..", "%5c..", "/%252e%252e", "%2f..")
AMBIGUOUS = (
    "content-length: {0}\r\ncontent-length: {0}\r\n",
    "content-length: {0}\r\ntransfer-encoding: chunked\r\n",
    "transfer-encoding: chunked\r\ncontent-length: {0}\r\n",
    "transfer-encoding: chunked, identity\r\n",
    "transfer-encoding: gzip, chunked\r\n",
    "content-length : {0}\r\n",
    "x: a\r\n content-length: {0}\r\n",
    "x: a\ncontent-length: {0}\r\n",
    "host: localhost\r\ncontent-length: {0}\r\n",
)
SMUGGLED = "host: localhost\r\nx-offbook-session: smuggled\r\ncontent-length: 2\r\n\r\n{}"
STRANGE_TOKENS = ("", "/t/", "/t/{half}", "/t/{all}x", "/T/{all}", "/t/%2e/{all}", "//t/{all}", "/x/../t/{all}")
"""How a path begins that does not have the token."""
PAGES = (("GET", "/_offbook/sessions"), ("POST", "/v1/chat/completions"), ("PUT", "/_offbook/sessions/x"))
TOO_LARGE = (b"400", b"413", b"414", b"431")


class _Upstream(http.server.BaseHTTPRequestHandler):
    """A real API that notes which paths were requested."""

    protocol_version = "HTTP/1.1"
    paths: list[str]

    def do_POST(self) -> None:
        self.paths.append(self.path)
        self.rfile.read(int(self.headers.get("content-length", 0)))
        answer = {"object": "chat.completion", "choices": [{"message": {"role": "assistant", "content": "ok"}}]}
        body = orjson.dumps(answer)
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


def attack(*, seconds: float, seed: int) -> Outcome:
    """Try everything in turns, each time with other choices."""
    outcome, draw, samples = Outcome(unit="requests"), random.Random(seed), list[Sample]()
    number = files_before = 0
    with _server() as (server, paths):
        front = _Front(server, paths, outcome, draw)
        for number in rounds(seconds):
            for attempt in (
                front.intrude,
                front.pretend,
                front.lead_out,
                front.smuggle,
                front.send_too_much,
                front.crowd_in,
            ):
                attempt()
            front.be_honest()
            server.end_session("")
            if number == 0:
                files_before = front.files_at_rest()
            if number % ROUNDS_A_SAMPLE == 0:
                samples.append(sample(number))
        # the first round opens what stays open: only those after it can show a leak
        if number and (files := front.files_at_rest()) > files_before:
            outcome.lose(f"{files - files_before} descriptors stay open", times=files - files_before)
    if len(samples) > 4 and not (grown := growth(samples)).is_flat:
        outcome.lose(
            f"memory grows: {grown.blocks:+,} blocks and {grown.resident_mb:+.1f} MB in {grown.calls:,} rounds"
        )
    return outcome


class _Front:
    """One server, and what is tried on it."""

    def __init__(self, server: WireServer, paths: list[str], outcome: Outcome, draw: random.Random) -> None:
        self._server, self._paths, self._outcome, self._draw = server, paths, outcome, draw
        self._port, self._token = server.address[1], server.token
        self._begin = token_path(self._token)

    def intrude(self) -> None:
        """Somebody without the token of the server, or with half of it, reads, asks and reports."""
        half = self._token[: self._draw.randrange(len(self._token))]
        begin = self._draw.choice(STRANGE_TOKENS).format(half=half, all=self._token)
        for method, path in (*PAGES, ("POST", "/_offbook/effects"), ("POST", "/_offbook/tools")):
            before = len(self._paths)
            status = self._ask(method, f"{begin}{path}", {}, prefix="")
            self._expect(status in (400, 401) and len(self._paths) == before, f"{method} {begin}{path}: {status}")

    def pretend(self) -> None:
        """A page of another site reads the control endpoints, and uses up answers."""
        headers = self._draw.choice(FOREIGN_HEADERS)
        for method, path in PAGES:
            status = self._ask(method, path, headers)
            self._expect(status == 403, f"{method} {path} with {headers}: {status}")

    def lead_out(self) -> None:
        """A path leaves the base path of the upstream, or names another server."""
        out = self._draw.choice(WAYS_OUT) * self._draw.randint(1, 4)
        for path in (f"/v1{out}/secret", f"/v1/chat/completions{out}/../x", "http://evil.test/v1/models"):
            before = len(self._paths)
            self._ask("POST", path, {})
            self._expect(len(self._paths) == before, f"{path} reached upstream as {self._paths[-1:]}")

    def smuggle(self) -> None:
        """A request whose end is unclear hides another one."""
        framing = self._draw.choice(AMBIGUOUS).format(5)
        line = f"POST {self._begin}/v1/chat/completions HTTP/1.1\r\n"
        head = f"{line}host: localhost\r\n{framing}\r\n".encode()
        before = len(self._paths)
        self._send(head + b"0\r\n\r\n" + f"{line}{SMUGGLED}".encode())
        is_through = len(self._paths) != before or any(each.name == "smuggled" for each in self._server.sessions)
        self._expect(not is_through, f"{framing!r} smuggled a request")

    def send_too_much(self) -> None:
        """Headers, URLs and bodies above the limits."""
        size = self._draw.randint(70_000, 200_000)
        head = f"POST {self._begin}/v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n".encode()
        for data in (
            head + b"x: " + b"a" * size + b"\r\n\r\n",
            head + b"x: y\r\n" * 5_000 + b"\r\n",
            b"GET /" + b"a" * size + b" HTTP/1.1\r\nhost: localhost\r\n\r\n",
            head + b"content-length: %d\r\n\r\n" % (10**9),
            head + b"transfer-encoding: chunked\r\n\r\n1;" + b"a" * (4 * size),
        ):
            answer = self._send(data)
            self._expect(
                not answer or answer[9:12] in (b"400", b"413", b"414", b"431"), f"{data[:60]!r}: {answer[:40]!r}"
            )

    def crowd_in(self) -> None:
        """Many connections send half a head each, and nothing more; an honest client gets its answer beside them."""
        crowd = [socket.create_connection(("127.0.0.1", self._port), PATIENCE_S) for _ in range(CROWD)]
        for connection in crowd:
            with suppress(OSError):
                head = f"POST {self._begin}/v1/chat/completions HTTP/1.1\r\nhost: loc".encode()
                connection.sendall(head[: self._draw.randint(0, len(head))])
        self.be_honest()
        for connection in crowd:
            connection.close()
        self._outcome.trials += CROWD

    def be_honest(self) -> None:
        """A client that does nothing wrong gets its answer."""
        status = self._ask("POST", "/v1/chat/completions", {})
        self._expect(status == 200, f"an honest call: {status}")

    def files_at_rest(self) -> int:
        """Return how many descriptors are open when all clients have left."""
        folder = Path("/proc/self/fd")
        if not folder.exists():
            return 0
        counts = [len(list(folder.iterdir()))]
        for _ in range(20):
            time.sleep(0.05)
            counts.append(len(list(folder.iterdir())))
        return min(counts)

    def _expect(self, holds: bool, example: str) -> None:
        self._outcome.trials += 1
        if not holds:
            self._outcome.lose(example)

    def _ask(self, method: str, path: str, headers: dict[str, str], *, prefix: str | None = None) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE_S)
        try:
            prefix = self._begin if prefix is None and path.startswith("/") else prefix or ""
            connection.putrequest(method, prefix + path, skip_host="host" in headers)
            for name, value in headers.items():
                connection.putheader(name, value)
            connection.putheader("content-length", str(len(BODY)))
            connection.endheaders(BODY)
            answer = connection.getresponse()
            answer.read()
        except OSError:
            return 0
        finally:
            connection.close()
        return answer.status

    def _send(self, data: bytes) -> bytes:
        """Return the beginning of what is answered; empty if the connection is closed without an answer."""
        with socket.create_connection(("127.0.0.1", self._port), PATIENCE_S) as connection, suppress(OSError):
            connection.sendall(data)
            return connection.recv(65_536)
        return b""


@contextmanager
def _server() -> Iterator[tuple[WireServer, list[str]]]:
    """A server that records, and the paths that it has requested upstream."""
    paths: list[str] = []
    handler: Callable[..., _Upstream] = type("Upstream", (_Upstream,), {"paths": paths})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as upstream, TemporaryDirectory() as folder:
        threading.Thread(target=upstream.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{upstream.server_port}/v1"
        try:
            with serving(record=f"{folder}/run.json", record_mode="once", upstreams={"openai": url}) as server:
                yield server, paths
        finally:
            upstream.shutdown()
