"""Asks an HTTP server as fast as it answers, from a process of its own: `python -m bench.http_load < order.json`."""

from __future__ import annotations

import gc
import selectors
import socket
import subprocess
import sys
import time
from itertools import cycle

import msgspec
from msgspec import Struct

from bench.cores import CLIENT, on_core

READ_BYTES = 1 << 18
HEAD_END, LAST_CHUNK = b"\r\n\r\n", b"\r\n0\r\n\r\n"


class Order(Struct, frozen=True):
    """What to ask: whole requests, one after the other and over again, on so many connections for so long."""

    port: int
    requests: list[bytes]
    connections: int
    warm_up_s: float
    timed_s: float


class Pace(Struct, frozen=True):
    """How fast the answers came: how many a second, half and 99 of 100 of them within so many µs.

    `busy` is the share of the time in which the asking process did not wait, `total` all answers, warm-up and all.
    """

    rate: float
    p50_us: float
    p99_us: float
    busy: float
    total: int


class Asker:
    """One connection: a request goes out when the answer to the one before is complete."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.asked_ns = 0
        self._left = -1
        self._tail = b""

    def ask(self, request: bytes) -> None:
        self.asked_ns = time.perf_counter_ns()
        self._left, self._tail = -1, b""
        self.socket.sendall(request)

    def read(self) -> bool:
        """Whether the answer is complete."""
        data = self.socket.recv(READ_BYTES)
        if not data:
            raise ConnectionError("the server hung up")
        if self._left < 0 and not self._tail:
            return self._read_head(data)
        if self._left >= 0:
            self._left -= len(data)
            return self._left <= 0
        return self._ends(self._tail + data[-len(LAST_CHUNK) :])

    def _read_head(self, data: bytes) -> bool:
        head, end, body = data.partition(HEAD_END)
        if not end or not head.startswith(b"HTTP/1.1 200"):
            raise AssertionError(f"the server answered {data[:300]!r}")
        length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
        if not length:
            return self._ends(data[-len(LAST_CHUNK) :])
        self._left = int(length) - len(body)
        return self._left <= 0

    def _ends(self, tail: bytes) -> bool:
        self._tail = tail[-len(LAST_CHUNK) :]
        return self._tail == LAST_CHUNK


def drive(order: Order) -> Pace:
    """Ask for as long as is ordered."""
    requests = cycle(order.requests)
    selector = selectors.DefaultSelector()
    for _ in range(order.connections):
        asker = Asker(order.port)
        selector.register(asker.socket, selectors.EVENT_READ, asker)
        asker.ask(next(requests))
    gc.disable()
    warm_up = _ask_until(selector, requests, time.perf_counter() + order.warm_up_s)
    started_s, started_cpu_s = time.perf_counter(), time.process_time()
    waits_ns = sorted(_ask_until(selector, requests, started_s + order.timed_s))
    taken_s, cpu_s = time.perf_counter() - started_s, time.process_time() - started_cpu_s
    return Pace(
        len(waits_ns) / taken_s,
        waits_ns[len(waits_ns) // 2] / 1000.0,
        waits_ns[len(waits_ns) * 99 // 100] / 1000.0,
        cpu_s / taken_s,
        len(warm_up) + len(waits_ns),
    )


def _ask_until(selector: selectors.BaseSelector, requests: cycle[bytes], end_s: float) -> list[int]:
    """The times from request to complete answer, in ns."""
    waits_ns: list[int] = []
    while time.perf_counter() < end_s:
        for key, _ in selector.select():
            asker: Asker = key.data
            if asker.read():
                waits_ns.append(time.perf_counter_ns() - asker.asked_ns)
                asker.ask(next(requests))
    return waits_ns


def drive_apart(order: Order) -> Pace:
    """The same, in a process of its own, away from the server's core."""
    command = [sys.executable, "-m", "bench.http_load"]
    with on_core(CLIENT):
        done = subprocess.run(command, input=msgspec.json.encode(order), stdout=subprocess.PIPE, check=True)
    return msgspec.json.decode(done.stdout, type=Pace)


if __name__ == "__main__":
    print(msgspec.json.encode(drive(msgspec.json.decode(sys.stdin.buffer.read(), type=Order))).decode())
