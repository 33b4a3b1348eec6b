"""offbook recording approve, and exec --golden."""

import json

import pytest

from offbook import ToolCall
from tests.cli.programs import ASK
from tests.servers.models import ChatModel, said


@pytest.fixture
def recorded(write):
    """Recordings of a run that refunds 10, and of one that refunds 12."""
    write("empty", "")
    for name, amount in ("run.json", 10), ("other.json", 12):
        call = {"id": "c", "name": "refund", "arguments": {"amount": amount, "why": "late"}}
        write(name, json.dumps({"_version": 2, "any": {"tool_calls": [call], "model": "m"}}))
    return "run.json"


def test_a_recording_is_approved_once_and_another_run_becomes_a_variant(run, recorded, tmp_path):
    assert run("recording", "approve", recorded) == (0, "run.golden: variant 1: refund\n", "")
    first = (tmp_path / "run.golden").read_bytes()
    assert run("recording", "approve", recorded) == (0, "run.golden: approved already\n", "")
    assert (tmp_path / "run.golden").read_bytes() == first
    golden = ["--golden", "run.golden"]
    code, out, _ = run("recording", "approve", "other.json", *golden, "--check")
    assert code == 1
    assert "amount: expected 10, got 12" in out
    assert run("recording", "approve", "other.json", *golden)[1] == "run.golden: variant 2: refund\n"
    assert run("recording", "approve", "other.json", *golden, "--check") == (0, "as approved\n", "")
    assert run("recording", "approve", recorded, "--list")[1] == "1: refund (run.json)\n2: refund (other.json)\n"
    assert len(json.loads(run("recording", "approve", recorded, "--list", "--json")[1])["variants"]) == 2
    approved = json.loads(run("recording", "approve", recorded, "--replace", "--json")[1])
    assert approved == {"golden": "run.golden", "added": True, "variants": 1}
    assert (tmp_path / "run.golden").read_bytes() == first


def test_exec_compares_the_run_with_what_was_approved(run, recorded):
    run("recording", "approve", recorded)
    golden = ["-o", "golden=run.golden", "--", *ASK, "late"]
    assert run("exec", "--replay", "run.json", *golden)[0] == 0
    code, _, err = run("exec", "--replay", "other.json", *golden)
    assert code == 1
    assert "the tool calls are not as approved: arguments differ: call 1, refund: amount: expected 10, got 12" in err
    assert "offbook recording approve other.json --golden run.golden" in err
    with ChatModel(lambda asked: said("", tool_calls=(ToolCall("refund", {"amount": 10, "why": asked}),))) as model:
        record = ["exec", "--record", "live.json", "--upstream", f"openai={model.url}"]
        assert run(*record, *golden)[0] == 0


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["recording", "approve", "run.json", "--replace", "--check"], "exclude each other"),
        (["recording", "approve", "run.json", "--check"], "run.golden: No such file"),
        (["recording", "approve", "missing.json"], "missing.json"),
        (["recording", "approve", "run.json", "--golden", "run.json", "--list"], "run.json"),
        (["recording", "approve", "run.json", "--golden", "empty"], "empty"),
        (["exec", "--replay", "run.json", "-o", "golden=none", "--", "true"], "none: No such file"),
    ],
)
def test_bad_input_is_refused(run, recorded, arguments, problem, tmp_path):
    before = (tmp_path / "run.json").read_bytes()
    code, _, err = run(*arguments)
    assert code == 2, err
    assert problem in err
    assert (tmp_path / "run.json").read_bytes() == before
