"""Killed recorders: `kill -9` at any moment loses nothing but the call in flight, and doubles nothing."""

from __future__ import annotations

import os
import shutil
import signal
import time
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from bench.redis_store import redis_port
from bench.soak.front import Outcome, rounds
from offbook.recording.format.document import Document, each_exchange
from offbook.recording.format.exchange import Exchange, ToolExchange
from offbook.recording.stores.locate import open_store

LOCATIONS = ("{}/run.json", "sqlite:///{}/run.db")
KILLS_A_RECORDING = 6
CALLS_A_CLOSE = 10
LONGEST_LIFE_S = 0.04


def attack(*, seconds: float, seed: int) -> Outcome:
    """Kill one recorder after the other, six in a row at each recording, of each kind of store in turn.

    Redis takes part if there is a server to start. There, a killed process must not keep others from writing.
    """
    outcome, random = Outcome(unit="calls"), Random(seed)
    with TemporaryDirectory(prefix="offbook-soak-") as folder, ExitStack() as stack:
        port = stack.enter_context(redis_port()) if shutil.which("redis-server") else None
        locations = [*LOCATIONS, *([] if port is None else [f"redis://127.0.0.1:{port}/0?prefix={{}}"])]
        for number in rounds(seconds):
            victim = _Recording(locations[number % len(locations)].format(Path(folder) / str(number)))
            for life in range(KILLS_A_RECORDING):
                victim.kill_one(f"{number}-{life}", after_s=random.uniform(0.0, LONGEST_LIFE_S))
                victim.check(outcome)
    return outcome


class _Recording:
    """A recording that is made by processes which are killed, and the calls that they reported as done."""

    def __init__(self, location: str) -> None:
        self._location = location
        self._done: set[str] = set()
        self._checked = 0

    def kill_one(self, name: str, *, after_s: float) -> None:
        """Let a process record until it is killed after that time."""
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            os.close(reader)
            _record_for_ever(self._location, name, writer)
        os.close(writer)
        time.sleep(after_s)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        with os.fdopen(reader, encoding="utf-8") as reported:
            self._done.update(line.strip() for line in reported if line.endswith("\n"))

    def check(self, outcome: Outcome) -> None:
        """Count the calls that were reported as done since the last check, and those that are missing or doubled."""
        store = open_store(self._location)
        document = store.load() if store.exists() else Document()
        found = [f"model {key}" for key, _ in document] + [f"tool {tool}" for tool, _ in each_exchange(document.tools)]
        outcome.trials += len(self._done) - self._checked
        for lost in sorted(self._done.difference(found)):
            outcome.lose(f"{self._location}: {lost} was done before the kill, and is gone")
        self._done.intersection_update(found)
        self._checked = len(self._done)
        if doubled := len(found) - len(set(found)):
            outcome.lose(f"{self._location}: {doubled} calls are there twice", times=doubled)


def _record_for_ever(location: str, name: str, reports: int) -> None:
    """Record calls of models and tools, report each when it is done, and fold now and then; never return."""
    try:
        writer = open_store(location).write()
        for number in count():
            key = f"{name}-{number}"
            writer.append(key, Exchange(content="kept" * (number % 50)))
            os.write(reports, f"model {key}\n".encode())
            writer.append_tool(key, ToolExchange(result="kept"))
            os.write(reports, f"tool {key}\n".encode())
            if number % CALLS_A_CLOSE == 0:
                writer.close()
    finally:
        os._exit(1)
