"""Killed pytest: `kill -9` of a run under xdist that records leaves every test's calls whole or absent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from bench.explored_programs import descendants
from bench.soak.front import Outcome, rounds
from offbook.recording.stores.locate import open_store

KILLS = 50
WORKERS, TESTS, CALLS = 2, 12, 5
LONGEST_WAIT_S, END_S, START_S = 0.02, 20.0, 60.0
STARTED, TEMPORARY = "started", "tmp"
VICTIMS = ("all", "all", "pytest", "a worker")
KINDS = {"shared": "shared.json", "base": "sqlite:///base.db", "own": ""}
_HEAD = """
import os
import pytest
from offbook import Provider, Response
from offbook.messages import WholeReply

class Echo(Provider):
    name = "echo"

    async def send(self, request):
        content = os.environ["RUN"] + ": " + request.messages[0]["content"]
        return WholeReply(Response(content=content, model=request.model, provider=self.name))

def ask(offbook, name):
    offbook.live(Echo)
    with open("STARTED", "a") as started:
        started.write(".")
    for call in range(CALLS):
        asked = [{"role": "user", "content": f"{name} {call}"}]
        offbook.run(offbook.provider.complete(asked, model="m", step_id=name))
"""
_TEST = """
@pytest.mark.offbook(MARK)
@pytest.mark.parametrize("number", range(TESTS))
def test_NAME(offbook, number):
    ask(offbook, f"NAME-{number}")
"""


def attack(*, seconds: float, seed: int) -> Outcome:
    """Kill a run that records again what the one before has recorded: all of it, pytest alone, or a worker.

    Tests share a JSON file, share a database, or have files of their own. A trial is a test of a run that was killed;
    there are 50 kills at least, if there is a minute.
    """
    outcome, random, known = Outcome(unit="tests"), Random(seed), set[str]()
    with TemporaryDirectory(prefix="offbook-soak-") as name:
        folder = Path(name)
        (folder / TEMPORARY).mkdir()
        (folder / "test_it.py").write_text("".join(_tests()))
        for number in rounds(seconds, fewest=KILLS):
            victim = random.choice(VICTIMS)
            _kill_one(folder, number, victim, random, outcome)
            known = _check(folder, f"kill {number} of {victim}", known, outcome)
        status = _start(folder, "last run").wait()
        if status or len(_check(folder, "the run after the kills", known, outcome)) < TESTS * len(KINDS):
            outcome.lose(f"the run after the kills ended with {status}, and does not have the calls of all tests")
        if left := [path.name for path in (folder / TEMPORARY).glob("offbook-*")]:
            outcome.lose(f"temporary folders are left: {left}", times=len(left))
    return outcome


def _tests() -> Iterator[str]:
    yield _HEAD.replace("CALLS", str(CALLS)).replace("STARTED", STARTED)
    for name, place in KINDS.items():
        mark = f"recording={place!r}" if place else ""
        yield _TEST.replace("NAME", name).replace("MARK", mark).replace("TESTS", str(TESTS))


def _kill_one(folder: Path, number: int, victim: str, random: Random, outcome: Outcome) -> None:
    """Start a run, kill the victim when some tests have begun, and wait for what is left of the run."""
    process = _start(folder, f"run {number}")
    after, end_s = random.randrange(1, TESTS * len(KINDS)), time.monotonic() + START_S
    while (folder / STARTED).stat().st_size < after and process.poll() is None and time.monotonic() < end_s:
        time.sleep(0.001)
    time.sleep(random.uniform(0.0, LONGEST_WAIT_S))
    family = list(descendants(process.pid)) if process.poll() is None else []
    for pid in {"all": [process.pid, *family], "pytest": [process.pid], "a worker": family[:1]}[victim]:
        _kill(pid)
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        outcome.lose(f"kill {number} of {victim}: pytest did not end")
        process.kill()
        process.wait()
    if left := _left(family):
        outcome.lose(f"kill {number} of {victim}: {len(left)} processes are left running")
        for pid in left:
            _kill(pid)


def _start(folder: Path, run: str) -> subprocess.Popen[bytes]:
    """Start a run that records again, under a name."""
    (folder / STARTED).write_bytes(b"")
    names = ("offbook.pytest_plugin.plugin", "xdist.plugin")
    options = [word for name in names for word in ("-p", name)] + ["-p", "no:cacheprovider", "-n", str(WORKERS)]
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", *options, "--rootdir", str(folder), "--offbook-record=all", "test_it.py"],
        cwd=folder,
        env=os.environ | {"RUN": run, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "TMPDIR": str(folder / TEMPORARY)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _left(family: list[int]) -> list[int]:
    """Return which of these processes run, after giving them time to end."""
    end_s = time.monotonic() + END_S
    while left := [pid for pid in family if Path(f"/proc/{pid}/exe").exists()]:
        if time.monotonic() > end_s:
            break
        time.sleep(0.01)
    return left


def _check(folder: Path, kill: str, known: set[str], outcome: Outcome) -> set[str]:
    """Count the tests whose calls are neither all of one run nor absent, or gone; return those that are recorded."""
    places = [f"{folder}/shared.json", f"sqlite:///{folder}/base.db", *map(str, folder.glob("recordings/**/*.json"))]
    found, asked = Counter[tuple[str, str]](), Counter[str]()
    for store in map(open_store, places):
        for key, exchange in store.load() if store.exists() else ():
            run, _, call = (exchange.content or "").partition(": ")
            found[key, run] += 1
            asked[call] += 1
    outcome.trials += TESTS * len(KINDS)
    for (test, run), count in found.items():
        if count != CALLS:
            outcome.lose(f"{kill}: {count} calls of {test} in {run} are recorded, instead of {CALLS}")
    for call, count in asked.items():
        if count > 1:
            outcome.lose(f"{kill}: call {call} is recorded {count} times")
    recorded = {test for test, _ in found}
    for test in sorted(known - recorded):
        outcome.lose(f"{kill}: the calls of {test} are gone")
    return recorded
