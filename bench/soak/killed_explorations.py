"""Killed explorations: `kill -9` of `explore --crash` leaves no process, and the next one finds all as it was."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from bench.soak.front import Outcome, rounds

KILLS = 50
END_S = 20.0
MARK = "OFFBOOK_SOAK_KILL"
ANSWERS = {
    "_version": 2,
    "any": [
        {"tool_calls": [{"id": "call_1", "name": "refund", "arguments": {"order": 42}}]},
        {"content": "Order 42 is refunded."},
    ],
}
AGENT = """
import json, os, sys, urllib.request
from pathlib import Path
from offbook import effect

state = Path(sys.argv[1])

def ask(messages):
    body = json.dumps({"model": "m", "messages": messages}).encode()
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    with urllib.request.urlopen(urllib.request.Request(url, body)) as answer:
        return json.load(answer)["choices"][0]["message"]

(state / "begun").write_text("begun")
messages = [{"role": "user", "content": "Order 42 never came"}]
while calls := (message := ask(messages)).get("tool_calls"):
    messages.append(message)
    for call in calls:
        order = json.loads(call["function"]["arguments"])["order"]
        with (state / "ledger").open("a") as ledger:
            ledger.write(f"{order}\\n")
        effect("refund", order=order)
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": "refunded"})
print(message["content"])
"""


def attack(*, seconds: float, seed: int) -> Outcome:
    """Kill one exploration after the other, with a folder that its runs share or copies of it, and explore to the end.

    There are 50 kills at least, if there is a minute.
    """
    outcome, random = Outcome(unit="kills"), Random(seed)
    with TemporaryDirectory(prefix="offbook-soak-") as name:
        explorations = [_Exploration(Path(name) / state, argument) for state, argument in _PLACES]
        for number in rounds(seconds, fewest=KILLS):
            outcome.trials += 1
            for loss in explorations[number % len(explorations)].kill_one(str(number), random):
                outcome.lose(f"kill {number}: {loss}")
    return outcome


_PLACES = (("shared", "state"), ("copied", "{keep}"))


class _Exploration:
    """An exploration that ended by itself, to which those after a kill are compared."""

    def __init__(self, folder: Path, state: str) -> None:
        self._folder, (self._state, self._temporary) = folder, (folder / "state", folder / "tmp")
        for each in (self._state, self._temporary):
            each.mkdir(parents=True)
        (self._state / "ledger").write_text("41\n")
        (folder / "agent.py").write_text(AGENT)
        (folder / "answers.json").write_text(json.dumps(ANSWERS))
        explore = [str(Path(sys.executable).parent / "offbook"), "explore", "--replay", "answers.json", "--run-tools"]
        explore += ["--crash", "--faults", "crash,http_error", "-o", "side_effects=refund", "--keep", "state", "--json"]
        self._command = [*explore, "--", sys.executable, "agent.py", state]
        started_s = time.monotonic()
        self._found = self._explore()
        self._length_s = time.monotonic() - started_s

    def kill_one(self, mark: str, random: Random) -> list[str]:
        """Kill an exploration at any moment, explore again, and return what is wrong then."""
        process = self._start(mark)
        time.sleep(random.uniform(0.0, self._length_s))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        losses = [f"{_command_of(pid)} is left running" for pid in _left(mark)]
        if (found := self._explore()) != self._found:
            losses.append(f"the next exploration found {found} instead of {self._found}")
        state = {path.name: path.read_text() for path in self._state.iterdir()}
        if state != {"ledger": "41\n"}:
            losses.append(f"the folder that is kept holds {state}")
        left = sorted(path.name for folder in (self._folder, self._temporary) for path in folder.iterdir())
        if left != ["agent.py", "answers.json", "state", "tmp"]:
            losses.append(f"left behind: {left}")
        return losses

    def _explore(self) -> object:
        """Explore to the end, and return the exit code and the verdicts."""
        process = self._start("")
        output, errors = process.communicate()
        try:
            explored = json.loads(output)["explored"]
        except ValueError:
            return process.returncode, errors
        return process.returncode, [(each["case"], each["verdict"]) for each in explored]

    def _start(self, mark: str) -> subprocess.Popen[str]:
        environment = os.environ | {"TMPDIR": str(self._temporary)} | ({MARK: mark} if mark else {})
        output = subprocess.PIPE
        return subprocess.Popen(
            self._command, cwd=self._folder, env=environment, stdout=output, stderr=output, text=True
        )


def _left(mark: str) -> list[int]:
    """Return the processes with this mark that do not end by themselves; they are killed then."""
    end_s = time.monotonic() + END_S
    while (left := _marked(mark)) and time.monotonic() < end_s:
        time.sleep(0.01)
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return left


def _marked(mark: str) -> list[int]:
    sought = f"{MARK}={mark}".encode()
    return [
        int(path.parent.name) for path in Path("/proc").glob("[0-9]*/environ") if sought in _read(path).split(b"\0")
    ]


def _command_of(pid: int) -> str:
    return _read(Path(f"/proc/{pid}/cmdline")).replace(b"\0", b" ").decode(errors="replace")


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # it has just ended, or is of somebody else
        return b""
