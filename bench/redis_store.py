"""Subject: what a call costs that is recorded into Redis, or replayed from it, beside bare round trips of redis-py."""

from __future__ import annotations

import asyncio
import random
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from bench.contestants.offbook import OffbookRecorder, OffbookReplayer
from bench.findings import Findings, Row, Table, Target, at_most
from bench.library import Spec
from bench.plan import Plan
from bench.stopwatch import Stopwatch, quiet, settled
from bench.workload import Call
from offbook.recording.stores.locate import open_store

RECORD, WRITE_FLOOR = "offbook, recording", "floor: one pipelined write"
IN_ORDER, READ_FLOOR = "offbook, in order", "floor: one GET a call"
ANY_ORDER, TWO_FLOOR = "offbook, in any order", "floor: its index, and then a GET"
SERVER_WRITE, SERVER_READ = "the server, to record a call", "the server, to find a call in any order"
CLIENT = ", its processor time"
CALLS = 200
START_TIMEOUT_S = 30.0
Work = Callable[[], Awaitable[None]]


def measure(plan: Plan) -> Findings:
    """Recordings of each length, into and from a server on this machine."""
    if shutil.which("redis-server") is None:
        return Findings("redis", notes=["redis-server is not installed: nothing was measured"])
    sizes = plan.sizes(10, 1_000, 10_000, 100_000)
    with redis_port() as port, settled():
        columns = [_Column(plan, port, size).measure() for size in sizes]
    names = [f"{size:,} entries" for size in sizes]
    writes = Table("recording into Redis", "µs a call", names, _rows(columns, (RECORD, WRITE_FLOOR)), base=WRITE_FLOOR)
    read_rows = _rows(columns, (IN_ORDER, READ_FLOOR, ANY_ORDER, TWO_FLOOR))
    reads = Table("replaying from Redis", "µs a call", names, read_rows, base=READ_FLOOR)
    own_rows = _rows(columns, (SERVER_WRITE, SERVER_READ))
    worked = [f"{name}{CLIENT}" for name in (RECORD, WRITE_FLOOR, IN_ORDER, READ_FLOOR, ANY_ORDER, TWO_FLOOR)]
    client = Table("processor time of the client", "µs a call", names, _rows(columns, worked), base=worked[-1])
    own = Table("what the server works for that", "µs a call", names, own_rows, base=SERVER_READ)
    targets = [
        *at_most("recording a call takes at most 1.5x of one pipelined write", writes.ratios(RECORD, WRITE_FLOOR), 1.5),
        *at_most("replaying in order takes at most 1.3x of one GET a call", reads.ratios(IN_ORDER, READ_FLOOR), 1.3),
        *at_most("in any order, at most 1.3x of the two reads it needs", reads.ratios(ANY_ORDER, TWO_FLOOR), 1.3),
        *_flat(writes, RECORD),
        *_flat(reads, IN_ORDER),
    ]
    notes = [
        "the floor of recording sends an exchange of the same size and its three index entries as one transaction",
        f"each figure is the best of several rounds of {CALLS} calls; the server has persistence off",
        "most of what elapses is the waking of client and server in turn; beside a load, compare processor time",
        "the server's own time is that of its commandstats, without reading from and writing to the network",
    ]
    return Findings("redis", [writes, reads, client, own], targets, notes)


def _rows(columns: Sequence[dict[str, float]], names: Sequence[str]) -> list[Row]:
    return [Row(name, [column[name] for column in columns]) for name in names]


def _flat(table: Table, name: str) -> list[Target]:
    row = table.row(name)
    figures = [figure for figure in (row.figures if row else []) if figure is not None]
    ratio = max(figures[1:]) / min(figures[1:])
    claim = f"{table.title}: a call costs the same in a short and in a long recording (within 1.5x)"
    return [Target(claim, f"{ratio:.2f}x from 1,000 entries on", ratio <= 1.5)]


class _Column:
    """One length of recording. All contestants take turns, so that what disturbs one disturbs the others too."""

    def __init__(self, plan: Plan, port: int, size: int) -> None:
        import redis  # noqa: PLC0415 - an extra

        self._size, self._repeats = size, plan.repeats(40, 15)
        plan.tell(f"redis: {size:,} entries")
        self._url = f"redis://127.0.0.1:{port}/0?prefix=bench{size}"
        open_store(self._url).save(open_store(plan.library.json(Spec(size))).load())
        self._client: Any = redis.Redis(port=port, single_connection_client=True)
        self._calls = [Spec(size).call(number) for number in range(min(size, CALLS))]
        self._rounds = max(CALLS // len(self._calls), 1)

    def measure(self) -> dict[str, float]:
        keys = self._client.keys(f"{self._base()}:x:*")[: len(self._calls)]
        value = self._client.get(keys[0])
        best: dict[str, float] = {}
        with asyncio.Runner() as runner:
            for number in range(self._repeats):
                for name, steps in (
                    (RECORD, self._record(number)),
                    (WRITE_FLOOR, self._write(value, number)),
                    (IN_ORDER, self._replay([self._calls] * self._rounds)),
                    (READ_FLOOR, self._read(keys * self._rounds)),
                    (ANY_ORDER, self._replay([self._shuffled(each) for each in range(self._rounds)])),
                    (TWO_FLOOR, self._find(self._shuffled(number) * self._rounds)),
                ):
                    own_name = {RECORD: SERVER_WRITE, ANY_ORDER: SERVER_READ}.get(name)
                    before = self._script_us() if own_name else 0.0
                    elapsed_us, worked_us = runner.run(_timed(steps))
                    took = {name: elapsed_us / CALLS, f"{name}{CLIENT}": worked_us / CALLS}
                    if own_name:
                        took[own_name] = (self._script_us() - before) / CALLS
                    best |= {each: min(figure, best.get(each, figure)) for each, figure in took.items()}
        self._client.close()
        return best

    def _base(self) -> str:
        """What the names of keys of exchanges of models begin with."""
        generation = self._client.hget(f"{{bench{self._size}}}:meta", "at").decode()
        return f"{{bench{self._size}}}:{generation}m"

    def _script_us(self) -> float:
        """What the server has worked on scripts so far."""
        return float(self._client.info("commandstats")["cmdstat_evalsha"]["usec"])

    def _shuffled(self, seed: int) -> list[Call]:
        numbers = random.Random(seed).sample(range(self._size), len(self._calls))
        return [Spec(self._size).call(number) for number in numbers]

    def _record(self, number: int) -> Iterator[Work]:
        calls = [Spec(self._size).call(self._size + number * CALLS + each) for each in range(CALLS)]
        recorder = OffbookRecorder(RECORD, self._url)
        recorder.open(Path(), calls)
        yield lambda: recorder.record(calls)
        yield recorder.close

    def _replay(self, rounds: list[list[Call]]) -> Iterator[Work]:
        replayers = [OffbookReplayer(IN_ORDER, self._url) for _ in rounds]
        for replayer in replayers:
            replayer.open()

        async def replay() -> None:
            for replayer, calls in zip(replayers, rounds, strict=True):
                await replayer.replay(calls)

        yield replay
        for replayer in replayers:
            yield replayer.close

    def _write(self, value: bytes, number: int) -> Iterator[Work]:
        async def write() -> None:
            for each in range(CALLS):
                name, key = f"{number}-{each}", f"floor{self._size}"
                pipeline = self._client.pipeline(transaction=True)
                pipeline.set(f"{key}:x:{name}", value)
                for index in (f"{key}:k:{name}", f"{key}:f:{name}", f"{key}:all"):
                    pipeline.zadd(index, {name: each})
                pipeline.execute()

        yield write

    def _read(self, keys: list[bytes]) -> Iterator[Work]:
        async def read() -> None:
            for key in keys:
                self._client.get(key)

        yield read

    def _find(self, calls: list[Call]) -> Iterator[Work]:
        base = self._base()

        async def find() -> None:
            for call in calls:
                ids = self._client.zrange(f"{base}:k:{call.step_id}", 0, -1)
                self._client.get(f"{base}:x:{ids[0].decode()}")

        yield find


async def _timed(steps: Iterator[Work]) -> tuple[float, float]:
    """The time of the first step, and that of our processor, in µs. What is before it and after it is not counted."""
    watch = Stopwatch()
    work = next(steps)
    with quiet(), watch.lap():
        worked_s = time.process_time()
        await work()
        worked_s = time.process_time() - worked_s
    for rest in steps:
        await rest()
    return watch.total_us, worked_s * 1e6


@contextmanager
def redis_port() -> Iterator[int]:
    """The port of a new Redis on this machine, which keeps nothing on disk and ends with the block."""
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    with tempfile.TemporaryDirectory() as folder:
        fixed = ["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", folder]
        command = ["redis-server", "--port", str(port), *fixed]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            try:
                _await_port(port)
                yield port
            finally:
                process.kill()


def _await_port(port: int) -> None:
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            if time.monotonic() > deadline_s:
                raise
            time.sleep(0.01)
        else:
            return
