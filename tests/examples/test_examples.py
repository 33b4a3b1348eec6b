"""Every example runs."""

from pathlib import Path

import pytest

from offbook.recording.stores.locate import open_store

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_two_calls_are_recorded_replayed_refused_and_broken(script, tmp_path):
    path = tmp_path / "demo.json"
    shown = script("record_and_replay.py", path)
    assert shown.count("The capital of France is Paris.") == 3
    assert "RateLimitError, waited 30.0 s" in shown
    assert "2 calls, 0 entries unused" in shown
    assert "+What is the capital of Spain?" in shown
    assert [key for key, _ in open_store(path).load()] == ["capital", "poem"]


def test_a_workflow_is_recorded_by_the_command_line_and_replayed_when_the_model_is_gone(script, monkeypatch):
    monkeypatch.chdir(EXAMPLES)  # the script changes the working directory
    recorded, replayed = script("record_then_replay.py").split("The model is stopped.")
    assert "tool_loop succeeded" in recorded
    assert "tool_loop succeeded" in replayed
    assert "2 exchanges of 1 key" in replayed


def test_a_refund_is_made_once_however_often_it_is_replayed(script, tmp_path):
    shown = script("refund_agent.py", tmp_path / "refund.json")
    assert shown.count("1 refund was made") == 2
    assert "the same transcript: True" in shown


def test_a_function_is_explored_and_the_hasty_one_refunds_twice(script, tmp_path):
    hasty, patient = script("explore_refund.py", tmp_path / "report.html").split("patient: ")
    assert "step=write call=1 attempt=1: connection_reset: refund(order_id=42) ran 2 times" in hasty
    assert patient == "12 cases, {'failed partway': 3, 'failed cleanly': 3, 'recovered': 6}\n"
    assert b"refund(order_id=42) ran 2 times" in (tmp_path / "report.html").read_bytes()


@pytest.mark.loads_sdk
def test_a_loop_of_ones_own_is_guarded(script):
    shown = script("own_loop.py")
    assert "[StepEnforcementError]" in shown
    assert "[ToolError] LookupError: there is no order 24" in shown
    assert "order 42 is refunded" in shown


@pytest.mark.parametrize("path", sorted((EXAMPLES / "recordings").glob("*.json")), ids=lambda path: path.stem)
def test_recordings_of_examples_are_current(path):
    document = open_store(path).load()
    assert document.version == 2
    assert document.entries
