"""Subject: how fast a replayed `tools/call` is over stdio and HTTP, beside an `mcp` server that answers a constant."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from bench.findings import Findings, Row, Table, at_least
from bench.http_load import Order, drive_apart
from bench.plan import Plan

OURS, FLOOR = "offbook", "floor: mcp server"
SERVERS = Path(".scratch/mcp2/bin/python")
CALLS, ROUNDS, WARM_UP = (2_000, 500), (8, 3), 50
FASTER_STDIO, FASTER_HTTP = 2.0, 5.0
STARTING_S, WARM_UP_S, TIMED_S = 60.0, 0.2, 1.0
_VERSION = "2026-07-28"
_META = {
    "io.modelcontextprotocol/protocolVersion": _VERSION,
    "io.modelcontextprotocol/clientCapabilities": {},
}
_HEADERS = {
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
    "mcp-protocol-version": _VERSION,
    "mcp-method": "tools/call",
    "mcp-name": "answer",
}
_FLOOR = """
import logging, sys
from mcp.server.mcpserver import MCPServer
logging.disable(logging.CRITICAL)
server = MCPServer("floor")
@server.tool()
def answer(number: int) -> str:
    return "constant"
if len(sys.argv) > 1:
    server.run("streamable-http", port=int(sys.argv[1]), json_response=True)
else:
    server.run("stdio")
"""


class Contestant(Struct, frozen=True):
    """A server, by its commands: over stdio, and over HTTP at a port."""

    name: str
    stdio: list[str]
    http: Callable[[int], list[str]]


def measure(plan: Plan) -> Findings:
    """Calls one after the other, on one connection; servers take turns, and the best round counts."""
    count, rounds = plan.repeats(*CALLS), plan.repeats(*ROUNDS)
    contestants = [_ours(plan)]
    notes = [
        "mcp: calls of one client, one after the other; the best of several rounds",
        "mcp: without mcp-cassette, which replays recordings too: the package index does not have it",
    ]
    if SERVERS.exists():
        contestants.append(Contestant(FLOOR, [str(SERVERS), "-c", _FLOOR], _floor_at))
    else:
        notes.append(f"mcp: without the floor, since {SERVERS} is missing: make mcp-clients")
    rows = [Row(each.name, list[float | None]()) for each in contestants]
    for title, transport in (("stdio", _stdio_rate), ("HTTP", _http_rate)):
        best = dict.fromkeys((each.name for each in contestants), 0.0)
        for number in range(rounds):
            for contestant in contestants:
                plan.tell(f"mcp: {title}, round {number + 1} of {rounds}, {contestant.name}")
                best[contestant.name] = max(best[contestant.name], transport(contestant, count))
        for row in rows:
            row.figures.append(best[row.name])
    table = Table("replayed tools/call", "calls/s", ["stdio", "HTTP"], rows, FLOOR if len(rows) > 1 else OURS)
    ratios = table.ratios(OURS, FLOOR)
    targets = at_least("a replayed call over stdio is twice as fast as the floor", ratios[:1], FASTER_STDIO)
    targets += at_least("a replayed call over HTTP is five times as fast as the floor", ratios[1:], FASTER_HTTP)
    return Findings("mcp", [table], targets, notes)


def _ours(plan: Plan) -> Contestant:
    path = plan.library.folder / "mcp.json"
    listed = {"tools": [{"name": "answer", "inputSchema": {"type": "object"}}]}
    methods = {"tools/list": [{"arguments": {}, "result": listed}]}
    tools = {"mcp.answer": {"result": "constant"}}
    path.write_text(json.dumps({"_version": 2, "_tools": tools, "_mcp": {"mcp": methods}}))
    command = [str(Path(sys.executable).parent / "offbook"), "mcp", "serve", str(path)]
    return Contestant(OURS, [*command, "--stdio"], lambda port: [*command, "--port", str(port), "--quiet"])


def _floor_at(port: int) -> list[str]:
    return [str(SERVERS), "-c", _FLOOR, str(port)]


def _message(number: int) -> bytes:
    params = {"name": "answer", "arguments": {"number": number}, "_meta": _META}
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}).encode()


def _stdio_rate(contestant: Contestant, count: int) -> float:
    with subprocess.Popen(contestant.stdio, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        stdin, stdout = process.stdin, process.stdout
        assert stdin is not None
        assert stdout is not None
        started_s = 0.0
        for number in range(WARM_UP + count):
            started_s = time.perf_counter() if number == WARM_UP else started_s
            stdin.write(_message(number) + b"\n")
            stdin.flush()
            if b"constant" not in stdout.readline():
                raise RuntimeError(f"{contestant.name} has not answered call {number}")
        rate = count / (time.perf_counter() - started_s)
        stdin.close()
        return rate


def _http_rate(contestant: Contestant, count: int) -> float:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = contestant.http(port)
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            _wait_for(port)
            _check_answer(contestant, port)
            requests = [_http_request(port, _message(number)) for number in range(count)]
            return drive_apart(Order(port, requests, 1, WARM_UP_S, TIMED_S)).rate
        finally:
            process.terminate()


def _check_answer(contestant: Contestant, port: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("POST", "/mcp", _message(0), _HEADERS)
    if b"constant" not in connection.getresponse().read():
        raise RuntimeError(f"{contestant.name} has not answered over HTTP")
    connection.close()


def _http_request(port: int, body: bytes) -> bytes:
    headers = {"host": f"127.0.0.1:{port}", "content-length": str(len(body))} | _HEADERS
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode() + body


def _wait_for(port: int) -> None:
    until_s = time.monotonic() + STARTING_S
    while time.monotonic() < until_s:
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", port)).close()
            return
        time.sleep(0.05)
    raise RuntimeError(f"no server at port {port}")
