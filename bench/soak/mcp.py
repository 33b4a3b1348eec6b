"""MCP proxies: many that record into one file lose nothing, and one that is killed loses only the call in flight."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from threading import Thread

from bench.soak.front import LONG_S, Outcome, rounds
from offbook.recording.format.document import Document, each_exchange
from offbook.recording.format.exchange import Exchange
from offbook.recording.stores.locate import open_store

LOCATIONS = ("{}/run.json", "sqlite:///{}/run.db")
PROXIES, CALLS, KILLS, KILLS_IN_SHORT = 4, 200, 50, 5
MOST_ANSWERED, LONGEST_WAIT_S = 12, 0.004
_SERVER = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    result = {"content": [{"type": "text", "text": str(asked["params"]["arguments"]["number"])}]}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


def attack(*, seconds: float, seed: int) -> Outcome:
    """Record from many proxies at once, and kill others, with each kind of store in turn."""
    outcome, random = Outcome(unit="tool calls"), Random(seed)
    kills = KILLS if seconds >= LONG_S else KILLS_IN_SHORT
    with TemporaryDirectory(prefix="offbook-soak-") as folder:
        for number in rounds(seconds):
            place = Path(folder) / str(number)
            place.mkdir()
            for location in LOCATIONS:
                outcome.add(record_together(location.format(place), proxies=PROXIES, calls=CALLS))
            outcome.add(kill_proxies(LOCATIONS[number % 2].format(place / "killed"), kills=kills, random=random))
    return outcome


def record_together(location: str, *, proxies: int, calls: int) -> Outcome:
    """Have so many proxies record so many tool calls each, beside model calls of this process, into one recording."""
    outcome = Outcome(unit="tool calls", trials=proxies * calls)
    open_store(location).write().close()
    clients = [_Client(location, f"s{number}") for number in range(proxies)]
    talks = [Thread(target=client.call, args=(calls,)) for client in clients]
    for talk in talks:
        talk.start()
    writer = open_store(location).write()
    for number in range(calls):
        writer.append(f"m{number}", Exchange(content="kept"))
    writer.close()
    for talk in talks:
        talk.join()
    for client in clients:
        client.end()
    document = open_store(location).load()
    recorded = _recorded(document)
    for client in clients:
        _compare(recorded, client.name, range(calls), calls, outcome)
    _lose_models(document, calls, outcome)
    return outcome


def kill_proxies(location: str, *, kills: int, random: Random) -> Outcome:
    """Kill one proxy after the other while it records, and look for what their clients were answered."""
    outcome = Outcome(unit="tool calls")
    Path(location.removeprefix("sqlite:///")).parent.mkdir(parents=True, exist_ok=True)
    for kill in range(kills):
        client = _Client(location, f"k{kill}")
        answered = client.call(random.randrange(MOST_ANSWERED))
        client.send(answered)
        time.sleep(random.uniform(0.0, LONGEST_WAIT_S))
        client.kill()
        outcome.trials += answered + 1
        store = open_store(location)
        recorded = _recorded(store.load() if store.exists() else Document())
        _compare(recorded, client.name, range(answered), answered + 1, outcome)
    return outcome


class _Client:
    """A client of a proxy, which records a real server under a name."""

    def __init__(self, location: str, name: str) -> None:
        self.name = name
        proxy = [str(Path(sys.executable).parent / "offbook"), "mcp", "record", "--output", location, "--name", name]
        self._process = subprocess.Popen(
            [*proxy, "--", sys.executable, "-c", _SERVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def call(self, count: int) -> int:
        """Make so many calls, one after the other, and return how many were answered."""
        assert self._process.stdout is not None
        for number in range(count):
            self.send(number)
            if not self._process.stdout.readline():
                return number
        return count

    def send(self, number: int) -> None:
        """Send a call without a wait for its answer."""
        assert self._process.stdin is not None
        params = {"name": "note", "arguments": {"number": number}}
        asked = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
        self._process.stdin.write(json.dumps(asked).encode() + b"\n")
        self._process.stdin.flush()

    def end(self) -> None:
        """Leave, and wait for the end of the proxy."""
        self._process.communicate()

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


def _recorded(document: Document) -> Counter[tuple[str, object]]:
    """Count the calls of each tool in a recording by their numbers."""
    return Counter(
        (tool, exchange.arguments["number"])
        for tool, exchange in each_exchange(document.tools)
        if isinstance(exchange.arguments, dict) and "number" in exchange.arguments
    )


def _compare(recorded: Counter[tuple[str, object]], server: str, answered: range, sent: int, outcome: Outcome) -> None:
    """Count the answered calls of a server that are missing or doubled, and calls that nobody has sent."""
    tool = f"{server}.note"
    for number in answered:
        if recorded[tool, number] != 1:
            outcome.lose(f"{tool}({number}) was answered, and is recorded {recorded[tool, number]} times")
    found = sum(count for (name, _), count in recorded.items() if name == tool)
    if found > sent:
        outcome.lose(f"{tool} was called {sent} times, and is recorded {found} times")


def _lose_models(document: Document, calls: int, outcome: Outcome) -> None:
    for number in range(calls):
        if f"m{number}" not in document.entries:
            outcome.lose(f"the model call m{number} is gone")
