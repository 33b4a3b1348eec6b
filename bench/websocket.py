"""Subject: how fast a server replays a WebSocket session of 10,000 frames, beside another one."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.contestants.wire_aimock import PACKAGE, AimockServer
from bench.cores import SERVER, on_core
from bench.findings import Findings, Row, Table, at_least
from bench.plan import Plan
from offbook import serving
from offbook.wire.websocket.framing import TEXT, FrameParser, encode_frame

OURS = "offbook"
FRAMES = 10_000
ROUNDS = (12, 5)
FASTER = 5.0
REQUEST = {"type": "response.create", "model": "gpt-5", "input": "count"}
LAST = b'"type":"response.completed"'
READ_BYTES = 1 << 20
HANDSHAKE = (
    b"GET /v1/responses HTTP/1.1\r\nhost: 127.0.0.1\r\nupgrade: websocket\r\nconnection: Upgrade\r\n"
    b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


def measure(plan: Plan) -> Findings:
    """Sessions of the Responses API over WebSocket, recorded at the peer and replayed by ours."""
    aimock = AimockServer(plan.library.folder)
    if aimock.absent:
        return Findings("websocket", notes=[f"nothing is measured: aimock {aimock.absent}"])
    plan.tell(f"websocket: recording a session of {FRAMES:,} frames")
    folder = plan.library.folder
    recording = folder / "websocket.json"
    peer = ["node", str(PACKAGE / "dist/cli.js"), "--port", "0", "--fixtures", str(_fixtures(folder)), "--strict"]
    ours = [str(Path(sys.executable).with_name("offbook")), "serve", "--replay", str(recording), "--quiet", "--json"]
    rates: dict[str, float] = {}
    with _started(peer) as peer_port:
        with serving(record=recording, upstreams={"openai": f"http://127.0.0.1:{peer_port}/v1"}) as proxy:
            frames = _session(int(proxy.url.rpartition(":")[2]))[0]
        with _started(ours) as our_port:
            for _ in range(plan.repeats(*ROUNDS)):
                for name, port in ((OURS, our_port), (aimock.name, peer_port)):
                    count, taken_s = _session(port)
                    assert count == frames, f"{name} sent {count} frames of {frames}"
                    rates[name] = max(rates.get(name, 0.0), count / taken_s)
    rows = [Row(name, [rate]) for name, rate in rates.items()]
    table = Table(f"a session of {frames:,} frames", "frames a second", ["1 connection"], rows, base=OURS)
    claim = f"a WebSocket session of {FRAMES:,} frames replays at {FASTER:g}x aimock's rate or more"
    notes = [
        f"best of {plan.repeats(*ROUNDS)} sessions each, in turn, from the handshake to the last frame",
        "frames of ours that are due together leave together; aimock writes each; the client counts them afterwards",
    ]
    return Findings("websocket", [table], at_least(claim, table.ratios(OURS, aimock.name), FASTER), notes)


def _fixtures(folder: Path) -> Path:
    path = folder / "aimock-websocket.json"
    response = {"content": "word " * FRAMES}
    path.write_text(
        json.dumps({"fixtures": [{"match": {"userMessage": "count"}, "response": response, "chunkSize": 5}]})
    )
    return path


@contextmanager
def _started(command: list[str]) -> Iterator[int]:
    """The port of a server in a process of its own."""
    with on_core(SERVER):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if found := re.search(r"http://127\.0\.0\.1:(\d+)", line):
                break
        else:
            raise RuntimeError(f"{command!r} did not start")
        threading.Thread(target=process.stdout.read, daemon=True).start()
        yield int(found[1])
    finally:
        process.kill()
        process.wait()


def _session(port: int) -> tuple[int, float]:
    """How many frames a session has, and how long it took."""
    started_s = time.perf_counter()
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(HANDSHAKE)
        data = connection.recv(READ_BYTES)
        connection.sendall(encode_frame(TEXT, json.dumps(REQUEST).encode(), is_masked=True))
        pieces = [data]
        while LAST not in b"".join(pieces[-2:]):
            piece = connection.recv(READ_BYTES)
            if not piece:
                raise ConnectionError("the server hung up")
            pieces.append(piece)
        taken_s = time.perf_counter() - started_s
    frames = b"".join(pieces).partition(b"\r\n\r\n")[2]
    return sum(1 for _ in FrameParser(expects_mask=False).feed(frames)), taken_s
