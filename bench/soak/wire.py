"""The soak of the server: hundreds of streams at once; nothing is left of them, and none is mixed up with another."""

from __future__ import annotations

import asyncio
import http.client
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

import msgspec
from msgspec import Struct
from rich.console import Console

from bench.soak.memory import Growth
from bench.soak.wire_crowd import SESSIONS, Crowd, record
from bench.soak.wire_server import Holdings

ROUND_S, LEAST_ROUNDS = 10.0, 3
REST_S = 6.0
"""How long to wait until what ended connections have held is released."""
SETTLE_S, LOOK_S = 5.0, 0.05
END_S = 1.0


class Look(Struct, frozen=True):
    """What a server held after so many streams."""

    streams: int
    held: Holdings


class Watched:
    """A server in a process of its own that is asked now and then what it holds."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-m", "bench.soak.wire_server", str(folder)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port = _port(_output(self._process))

    def look(self) -> Holdings:
        assert self._process.stdin is not None
        self._process.stdin.write("look\n")
        self._process.stdin.flush()
        return msgspec.json.decode(_output(self._process).readline(), type=Holdings)

    def forget(self) -> None:
        """Have all sessions forgotten: each remembers its calls."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        for session in range(SESSIONS):
            connection.request("DELETE", f"/_offbook/sessions/run-{session}")
            connection.getresponse().read()
        connection.close()

    def settled(self, files: int | None) -> Holdings:
        """What it holds when it has as many files open as before, or has not in time."""
        end_s = time.perf_counter() + SETTLE_S
        while (found := self.look()).files != files and time.perf_counter() < end_s:
            time.sleep(LOOK_S)
        return found

    def stop(self) -> None:
        self._process.communicate()


def hold_streams(
    console: Console, *, streams: int, seconds: float, seed: int, on_progress: Callable[[float], None]
) -> list[str]:
    """Hold streams for so long, look what is left of them, and end a server that has streams open; gives complaints."""
    with tempfile.TemporaryDirectory(prefix="offbook-soak-") as name:
        record(Path(name))
        complaints = _hold(console, Path(name), streams, seconds, seed, on_progress)
        return complaints + _end_under_way(console, Path(name), streams, seed)


def _hold(
    console: Console, folder: Path, streams: int, seconds: float, seed: int, on_progress: Callable[[float], None]
) -> list[str]:
    server = Watched(folder)
    try:
        crowd = Crowd(server.port, clients=streams, seed=seed)
        server.forget()
        files = server.look().files
        looks: list[Look] = []
        rounds = max(LEAST_ROUNDS, round(seconds / ROUND_S))
        for number in range(rounds):
            asyncio.run(crowd.hold(seconds / rounds))
            server.forget()
            time.sleep(REST_S)
            looks.append(Look(sum(crowd.ends.values()), server.settled(files)))
            on_progress((number + 1) * seconds / rounds)
    finally:
        server.stop()
    return _judge(console, crowd, looks, files)


def _judge(console: Console, crowd: Crowd, looks: list[Look], files: int | None) -> list[str]:
    last, grown = looks[-1].held, growth_of(looks[1:])
    ends = ", ".join(f"{manner} {count:,}" for manner, count in crowd.ends.most_common())
    console.print(f"streams  {looks[-1].streams:,}: {ends}; {SESSIONS} sessions, each with a text of its own")
    console.print(f"server   {last.files} files and {last.tasks} tasks behind them, {files} files before")
    console.print(f"growth   {grown.resident_mb:+.1f} MB and {grown.blocks:+,} blocks, to {last.resident_mb:.1f} MB")
    held = [look.held for look in looks]
    complaints = [f"no file is left open: {found.files} are, {files} were" for found in held if found.files != files]
    complaints += [f"no task is left: {found.tasks} are" for found in held if found.tasks != held[0].tasks]
    message = f"{grown.blocks:+,} blocks and {grown.resident_mb:+.1f} MB in {grown.calls:,} streams"
    return complaints + ([] if grown.is_flat else [f"the server's memory stays flat: {message}"])


def growth_of(looks: list[Look]) -> Growth:
    """How much more the last look shows than the first."""
    first, last = looks[0], looks[-1]
    blocks, resident_mb = last.held.blocks - first.held.blocks, last.held.resident_mb - first.held.resident_mb
    return Growth(last.streams - first.streams, blocks, resident_mb)


def _end_under_way(console: Console, folder: Path, streams: int, seed: int) -> list[str]:
    """End `offbook serve` by SIGTERM while streams are open."""
    command = [str(Path(sys.executable).with_name("offbook")), "serve", "--replay", str(folder)]
    command += ["-o", "latency_model=replay", "--quiet", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process, asyncio.Runner() as runner:
        crowd = Crowd(_port(_output(process)), clients=streams, seed=seed)
        held = runner.run(crowd.begin())
        started_s = time.perf_counter()
        process.send_signal(signal.SIGTERM)
        status = process.wait()
        taken_s = time.perf_counter() - started_s
        runner.run(crowd.see_ended(held))
    console.print(f"ending   {taken_s * 1000.0:.0f} ms from SIGTERM to the end, with {streams} streams open")
    late = [f"a server ends within {END_S:g} s: it took {taken_s:.2f} s"] if taken_s > END_S else []
    return late + ([f"a server that is ended exits with 0: it did with {status}"] if status else [])


def _output(process: subprocess.Popen[str]) -> IO[str]:
    assert process.stdout is not None
    return process.stdout


def _port(output: IO[str]) -> int:
    """The port of the address that a server prints first."""
    found = re.search(r"http://127\.0\.0\.1:(\d+)", line := output.readline())
    if found is None:
        raise RuntimeError(f"the server did not start: {line!r}")
    return int(found[1])
