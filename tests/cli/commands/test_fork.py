"""offbook exec --live-from: a recorded run that is continued live from a call on."""

import json

import pytest

from offbook.recording.stores.locate import open_store
from tests.cli.programs import ASK
from tests.servers.models import ChatModel, said


@pytest.fixture
def model():
    with ChatModel(lambda asked: said(asked.upper())) as model:
        yield model


@pytest.fixture
def recorded(run, model, write, tmp_path, monkeypatch):
    """The recording of three questions, and the options with which the model is asked."""
    write("prices.json", '{"as_of": "2026-01-31", "models": {"m": {"prompt": 1000, "completion": 1000}}}')
    monkeypatch.setenv("OFFBOOK_PRICES", "prices.json")
    upstream = ["--upstream", f"openai={model.url}"]
    assert run("exec", "--record", "run.json", *upstream, "--", *ASK, "one", "two", "three")[0] == 0
    return ["--replay", "run.json", *upstream]


def test_a_run_is_forked_at_a_call_with_another_model(run, recorded, model, tmp_path):
    before = (tmp_path / "run.json").read_bytes()
    model.respond = lambda request: said(f"{request.model}!")
    options = [*recorded, "--live-from", "call=3", "--model", "gpt-5-mini"]
    code, _, err = run("exec", *options, "--report", "report.json", "--", *ASK, "one", "two", "three")
    assert code == 0
    assert "live from call 3 on with gpt-5-mini; the whole run is recorded in run.live-from-3.json" in err
    assert "3 answers: 2 from run.json, 1 live for $0.0100; recorded in run.live-from-3.json" in err
    assert (tmp_path / "run.json").read_bytes() == before
    assert json.loads((tmp_path / "report.json").read_text())["calls"][2]["model"] == "gpt-5-mini"
    found = [stored.exchange.content for stored in open_store("run.live-from-3.json").read()]
    assert found == ["ONE", "TWO", "gpt-5-mini!"]
    again = ["exec", "--replay", "run.live-from-3.json", "--strict-unused", "--", *ASK, "one", "two", "three"]
    assert run(*again)[0] == 0


def test_a_fork_replaces_no_recording_unless_that_is_said(run, recorded, model, tmp_path):
    live = [*recorded, "--live-from", "call=1"]
    assert run("exec", *live, "--record", "new.json", "--", *ASK, "one")[0] == 0
    first, asked = (tmp_path / "new.json").read_bytes(), len(model.calls)
    code, _, err = run("exec", *live, "--record", "new.json", "--", *ASK, "two")
    assert code == 2
    assert "--record-mode fresh replaces it" in err
    assert len(model.calls) == asked
    assert (tmp_path / "new.json").read_bytes() == first
    assert run("exec", *live, "--record", "new.json", "--record-mode", "fresh", "--", *ASK, "two")[0] == 0
    assert "TWO" in (tmp_path / "new.json").read_text()
    assert "ONE" not in (tmp_path / "new.json").read_text()


def test_a_call_before_the_fork_that_is_not_recorded_is_a_mismatch(run, recorded, model):
    asked = len(model.calls)
    code, _, err = run("exec", *recorded, "--live-from", "call=2", "--", *ASK, "another")
    assert code == 3
    assert "call 1 has no answer" in err
    assert len(model.calls) == asked


def test_a_fork_that_is_never_reached_fails(run, recorded):
    code, _, err = run("exec", *recorded, "--live-from", "call=9", "--", *ASK, "one", "two", "three")
    assert code == 1
    assert "call 9 was never made, so nothing was live: the run made 3 calls" in err


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--live-from", "4"], "expected call=N, got '4'"),
        (["--live-from", "call=0"], "expected call=N, got 'call=0'"),
        (["--model", "m"], "--model requires --live-from"),
        (["--live-from", "call=2", "--lenient"], "--live-from excludes --lenient"),
        (["--live-from", "call=2", "--record-mode", "all"], "--live-from excludes --record-mode all"),
        (["--live-from", "call=2", "--mcp", "mcp.json"], "--live-from excludes --mcp"),
        (["--live-from", "call=2", "--record", "run.json"], "does not write to the recording that it follows"),
        (["--live-from", "call=2", "--record", "run.txt"], "a recording is a file named *.json"),
    ],
)
def test_options_that_make_no_fork_are_refused(run, recorded, model, options, problem):
    asked = len(model.calls)
    code, _, err = run("exec", *recorded, *options, "--", *ASK, "one")
    assert code == 2
    assert len(model.calls) == asked
    assert problem in err


def test_live_calls_without_a_recording_to_leave_are_refused(run, recorded):
    code, _, err = run("exec", "--record", "new.json", "--live-from", "call=2", "--", *ASK, "one")
    assert code == 2
    assert "--live-from requires --replay" in err
