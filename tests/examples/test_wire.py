"""Agents that do not import offbook replay offline, in Python and in JavaScript, from one recording."""

import json
import os
import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from tests.servers.foreign import skip_or_fail

ROOT = Path(__file__).parents[2]
WIRE = ROOT / "examples" / "wire"
ANSWER = "In Bergen, where it rains. In Oslo the sun shines.\n"
PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
FAILED_ONCE = ["--fault", "call=2 attempt=1: http_error 500", "-o", "retry_after_ms=1"]


@pytest.mark.parametrize("program", ["weather_agent.py", "weather_agent.mjs"])
def test_an_agent_gets_over_a_failure_and_uses_all_that_was_recorded(program, command, monkeypatch):
    if program.endswith(".mjs"):
        skip_or_fail("" if shutil.which("node") else "node is not installed", "NODE")
    monkeypatch.setenv("PATH", PATH)
    documented = re.search(r"Run it: offbook exec (.*)", (WIRE / program).read_text())
    code, out, err = command("exec", *FAILED_ONCE, "--strict-unused", *shlex.split(documented[1]), folder=ROOT)
    assert code == 0
    assert out == ANSWER
    note, *summary = err.splitlines()
    assert note == "offbook: the program runs its tools for real; the recording asks for get_weather"
    assert summary[:2] == [
        "offbook: 2 calls in 3 attempts, 2 served, 1 with a fault (examples/wire/weather.json)",
        "offbook: 1 fault fired: call=2 attempt=1: http_error 500",
    ]


def test_the_agents_still_ask_what_was_recorded(script, tmp_path):
    path = tmp_path / "weather.json"
    script("wire_record.py", path)
    assert requests_and_responses(path) == requests_and_responses(WIRE / "weather.json")


def requests_and_responses(path):
    """The entries of a recording without what differs from run to run."""
    entries = {key: entry for key, entry in json.loads(path.read_text()).items() if not key.startswith("_")}
    return {key: (entry["request"], entry["wire"]) for key, entry in entries.items()}
