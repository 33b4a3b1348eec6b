"""What commands do that are to record where something is recorded already: ask for a mode, or say that they add."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli import flows, scenes
from tests.cli.programs import ASK

RUN = ["run", "flow.yaml", "--record", "run.json"]
RECORDED = '{"_version": 2, "hello": {"content": "Hello!"}, "_tools": {"one.add": [{"result": 3}]}}'
ASKING = {
    "exec": ["exec", "--record", "run.json", "--", *ASK, "Hi"],
    "exec, quiet": ["exec", "--quiet", "--record", "run.json", "--", *ASK, "Hi"],
    "test": ["test", "--record", "run.json"],
    "serve": ["serve", "--record", "run.json"],
    "serve, in processes": ["serve", "--record", "run.json", "-o", "processes=2"],
}


@pytest.mark.parametrize("arguments", ASKING.values(), ids=ASKING)
def test_a_recording_with_exchanges_is_not_written_to_before_a_mode_is_named(run, greet, write, arguments, tmp_path):
    write("run.json", RECORDED)
    write("offbook.toml", scenes.CONFIG)
    write("my_agent.py", scenes.AGENT)
    write("sim_booking.py", scenes.SCRIPTED)
    code, out, err = run(*arguments)
    assert code == 2
    assert out == ""
    assert "run.json: there are 2 exchanges already" in err
    for mode in ("append adds", "fresh replaces", "all replaces", "new records"):
        assert mode in err
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith("run.")) == ["run.json"]
    assert (tmp_path / "run.json").read_text() == RECORDED


def test_a_workflow_recorded_again_is_added_and_says_so_in_one_line(run, write, tmp_path, monkeypatch):
    write("flow.yaml", flows.GREET.replace("openai", "mock"))
    monkeypatch.chdir(tmp_path)
    assert run(*RUN)[0] == 0
    code, _, err = run(*RUN)
    assert code == 0
    adds = "run.json has 2 exchanges, and this run adds its own; --record-mode fresh replaces the recording"
    assert err == f"offbook: {adds}\n"
    recorded = json.loads((tmp_path / "run.json").read_text())
    assert [len(entry) for key, entry in recorded.items() if not key.startswith("_")] == [2, 2]


def test_a_recording_of_failures_alone_is_called_so(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1")
    assert run(*ASKING["exec"])[0] == 1
    code, _, err = run(*ASKING["exec"])
    assert code == 2
    assert "run.json: there is 1 exchange already, and all failed\n" in err
    assert "add --record-mode fresh to replace it" in err
    code, _, err = run("exec", "--record-mode", "fresh", *ASKING["exec"][1:])
    assert code == 1
    assert "already" not in err


@pytest.mark.parametrize("arguments", [ASKING["exec"], RUN], ids=["exec", "run"])
def test_a_recording_without_exchanges_needs_no_mode(run, write, arguments, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1")
    write("flow.yaml", flows.GREET.replace("model: demo", "model: demo, retry: {max_retries: 0}"))
    write("run.json", '{"_version": 2}')
    code, _, err = run(*arguments)
    assert code == 1
    assert "already" not in err


def test_a_server_of_mcp_which_clients_start_again_and_again_says_that_it_adds(write):
    write("one.json", RECORDED)
    offbook = Path(sys.executable).parent / "offbook"
    command = [offbook, "mcp", "record", "--output", "one.json", "--", sys.executable, "-S", "-c", ""]
    done = subprocess.run(command, check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert (
        "one.json has 2 exchanges, and this run adds its own; --record-mode fresh replaces the recording" in done.stderr
    )
    assert done.stdout == ""
