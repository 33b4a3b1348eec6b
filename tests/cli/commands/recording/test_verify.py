"""offbook recording verify: what it says before it asks, what it reports, and its exit codes."""

import io
import json
import sys

import pytest

import offbook
from tests.cli.programs import ASK
from tests.servers.models import ChatModel, said


@pytest.fixture
def model():
    """A model on loopback that says what it was asked, in capitals, for two cents."""
    with ChatModel(lambda asked: said(asked.upper())) as model:
        yield model


@pytest.fixture
def recorded(run, model, tmp_path, monkeypatch):
    """The recording of three questions, and the options with which the model is asked again."""
    prices = tmp_path / "prices.json"
    prices.write_text('{"as_of": "2026-01-31", "models": {"m": {"prompt": 1000, "completion": 1000}}}')
    monkeypatch.setenv("OFFBOOK_PRICES", str(prices))
    path, upstream = tmp_path / "run.json", ["--upstream", f"openai={model.url}"]
    assert run("exec", "--record", path, *upstream, "--", *ASK, "one", "two", "three")[0] == 0
    return [path, *upstream]


def test_it_says_what_it_costs_and_makes_no_call_unless_that_is_confirmed(run, recorded, model):
    before = len(model.calls)
    code, out, err = run("recording", "verify", *recorded)
    assert code == 2
    assert out == ""
    assert len(model.calls) == before
    assert "verify makes 3 calls to openai; 30 tokens; about $0.0300" in err
    assert "add --yes to make them" in err


class Terminal(io.StringIO):
    """Somebody at a terminal, who types this."""

    def isatty(self):
        return True


@pytest.mark.parametrize(("typed", "code"), [("y\n", 0), ("n\n", 2), ("", 2)])
def test_on_a_terminal_it_asks(run, recorded, model, monkeypatch, typed, code):
    before = len(model.calls)
    monkeypatch.setattr(sys, "stdin", Terminal(typed))
    ended, out, err = run("recording", "verify", *recorded)
    assert ended == code
    assert len(model.calls) - before == (0 if code else 3)
    assert out == ("" if code else "3 calls: 3 identical; $0.0300, $0.0300 when recorded\n")
    assert "Make these calls? [y/N]: " in err


def test_drift_is_reported_call_by_call_and_twice_with_the_same_bytes(run, recorded, model):
    model.respond = lambda request: said("", tool_calls=(offbook.ToolCall("refund", {"id": 7}, "c"),))
    code, out, _ = run("recording", "verify", *recorded, "--yes", "--only", "call=2")
    assert code == 1
    assert (
        out
        == "call 2: m: two: drifted\n  answer: text → tool call\n1 call: 1 drifted; $0.0100, $0.0100 when recorded\n"
    )
    first, second = (run("recording", "verify", *recorded, "--yes", "--json")[1] for _ in range(2))
    assert first == second
    found = json.loads(first)
    assert found["is_same"] is False
    assert [call["outcome"] for call in found["calls"]] == ["drifted"] * 3


def test_failures_of_the_api_and_a_budget_that_is_too_small_are_told_apart_from_drift(run, recorded, model):
    code, out, _ = run("recording", "verify", *recorded, "--yes", "--budget", "0.02")
    assert code == 1
    assert out == "3 calls: 2 identical, 1 not asked; $0.0200, $0.0200 when recorded\n"
    model.respond = lambda request: said("", finish_reason="refused")
    model.answer = lambda call: call.whole(b'{"error": {"message": "no"}}', status=500)
    code, out, _ = run("recording", "verify", *recorded, "--yes")
    assert code == 1
    assert out.splitlines()[-1] == "3 calls: 3 failed; $0, $0 when recorded"
    assert f"call 1: m: one: status 500 from {model.url.removesuffix('/v1')}" in out


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--only", "3"], "expected call=N, got '3'"),
        (["--only", "call=9"], "there is no call 9"),
        (["--budget", "-1"], "-1 is not an amount of money"),
        (["--header", "nonsense"], "expected NAME=VALUE"),
        (["--upstream", "opneai=http://127.0.0.1:1"], "did you mean 'openai'?"),
    ],
)
def test_bad_options_are_refused_before_anything_is_sent(run, recorded, model, options, problem):
    before = len(model.calls)
    code, out, err = run("recording", "verify", *recorded, "--yes", *options)
    assert code == 2
    assert out == ""
    assert len(model.calls) == before
    assert problem in err


def test_a_missing_key_and_a_recording_without_requests_are_bad_input(run, recorded, record, write):
    code, _, err = run("recording", "verify", recorded[0], "--yes")
    assert code == 2
    assert "export OPENAI_API_KEY=…" in err
    write("hand.json", '{"_version": 2, "greet": {"content": "Hi"}}')
    code, _, err = run("recording", "verify", "hand.json", "--yes")
    assert code == 2
    assert "no call of 1 exchange can be made again: it does not say which request it answers" in err
    code, _, err = run("recording", "verify", "missing.json", "--yes")
    assert code == 2
    assert "missing.json" in err


def test_sessions_over_websocket_are_counted_and_named_as_not_verified(run, recorded, tmp_path):
    document = json.loads(recorded[0].read_text())
    for number in range(3):
        place = {"method": "WS", "path": "/v1/realtime?model=m", "after": f"{number}", "sent": [[0, {"type": "x"}]]}
        wire = {"protocol": "websocket", "status": 101, "headers": {}, "frames": [[0.0, "{}"]]}
        document[f"ws-{number}"] = {"request": place, "wire": wire, "request_hash": f"{number}"}
    recorded[0].write_text(json.dumps(document))
    code, out, err = run("recording", "verify", *recorded, "--yes")
    assert code == 0
    assert "3 exchanges left out" in err
    assert out == (
        "left out: WS /v1/realtime?model=m: a WebSocket session is not asked again: what a server sends depends on "
        "when the client speaks (3 exchanges)\n"
        "3 calls: 3 identical, 3 left out; $0.0300, $0.0300 when recorded\n"
    )
