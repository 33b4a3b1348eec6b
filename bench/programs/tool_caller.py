"""A program that times calls of its tools: `python tool_caller.py FLOOR-PORT CALLS ROUNDS`, under `offbook exec`.

It prints the best µs a call as JSON, by name: of a function that is no tool, of a POST to a bare server, and of tools.
"""

import asyncio
import itertools
import json
import socket
import sys
import time
from collections.abc import Awaitable, Callable

import called_tools

GIVEN = {"to": "ann@example.com", "subject": "Your order"}
HEAD = b"POST / HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 72\r\n\r\n"


def timed(call: Callable[[], object], count: int) -> float:
    started_s = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - started_s) / count * 1e6


async def timed_later(call: Callable[[], Awaitable[object]], count: int) -> float:
    started_s = time.perf_counter()
    for _ in range(count):
        await call()
    return (time.perf_counter() - started_s) / count * 1e6


async def measure(port: int, count: int, rounds: int) -> dict[str, float]:
    loop = asyncio.get_running_loop()
    blocking, waiting = (socket.create_connection(("127.0.0.1", port)) for _ in range(2))
    waiting.setblocking(False)

    bodies = (b"%072d" % number for number in itertools.count())

    def post() -> None:
        body = next(bodies)
        blocking.sendall(HEAD + body)
        assert blocking.recv(65536).endswith(body[-36:])

    async def post_later() -> None:
        body = next(bodies)
        await loop.sock_sendall(waiting, HEAD + body)
        assert (await loop.sock_recv(waiting, 65536)).endswith(body[-36:])

    best: dict[str, float] = {}
    for _ in range(rounds):
        figures = {
            "bare": timed(lambda: called_tools.plain(**GIVEN), count),
            "floor": timed(post, count),
            "tool": timed(lambda: called_tools.mail(**GIVEN), count),
            "bare, awaited": await timed_later(lambda: called_tools.plain_later(**GIVEN), count),
            "floor, awaited": await timed_later(post_later, count),
            "tool, awaited": await timed_later(lambda: called_tools.mail_later(**GIVEN), count),
        }
        best = {name: min(figure, best.get(name, figure)) for name, figure in figures.items()}
    return best


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measure(*map(int, sys.argv[1:])))))
