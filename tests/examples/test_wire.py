"""Agents that know nothing of offbook replay offline, in Python and in JavaScript, from one recording."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WIRE = ROOT / "examples" / "wire"
ANSWER = "In Bergen, where it rains. In Oslo the sun shines.\n"
PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
OFFLINE = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI")} | {"PATH": PATH}
FAILED_ONCE = ["--fault", "call=2 attempt=1: http_error 500", "--retry-after-ms", "1"]
TIMEOUT_S = 60


@pytest.fixture(params=["weather_agent.py", "weather_agent.mjs"])
def command(request):
    """The command that a program says runs it, as words."""
    if request.param.endswith(".mjs") and shutil.which("node") is None:
        (pytest.fail if os.environ.get("OFFBOOK_REQUIRE_NODE") == "1" else pytest.skip)("node is not installed")
    told = re.search(r"Run it: (offbook exec .*)", (WIRE / request.param).read_text())
    return shlex.split(told[1])


def test_an_agent_gets_over_a_failure_and_uses_all_that_was_recorded(command):
    words = [*command[:2], *FAILED_ONCE, "--strict-unused", *command[2:]]
    done = subprocess.run(words, cwd=ROOT, env=OFFLINE, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    assert (done.returncode, done.stdout) == (0, ANSWER)
    assert done.stderr.splitlines() == [
        "offbook: 2 calls in 3 tries, 2 served, 1 with a fault (examples/wire/weather.json)",
        "offbook: 1 fault fired: call=2 attempt=1: http_error 500",
    ]


def test_the_agents_still_ask_what_was_recorded(tmp_path):
    path = tmp_path / "weather.json"
    program = ROOT / "examples" / "wire_record.py"
    subprocess.run([sys.executable, program, path], check=True, capture_output=True, timeout=TIMEOUT_S)
    assert asked(path) == asked(WIRE / "weather.json")


def asked(path):
    """What was asked and answered, without what differs from run to run."""
    entries = {key: entry for key, entry in json.loads(path.read_text()).items() if not key.startswith("_")}
    return {key: (entry["request"], entry["wire"]) for key, entry in entries.items()}
