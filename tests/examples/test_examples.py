"""Every example runs."""

import subprocess
import sys
from pathlib import Path

import pytest

from understudy.recording.stores.locate import open_store

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_the_demo_records_replays_and_refuses(tmp_path):
    path = tmp_path / "demo.json"
    command = [sys.executable, EXAMPLES / "record_and_replay.py", path]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert shown.count("The capital of France is Paris.") == 3
    assert "RateLimitError, waited 30.0 s" in shown
    assert "2 calls, 0 entries left unused" in shown
    assert "+What is the capital of Spain?" in shown
    assert [key for key, _ in open_store(path).load()] == ["capital", "poem"]


@pytest.mark.parametrize("path", sorted((EXAMPLES / "recordings").glob("*.json")), ids=lambda path: path.stem)
def test_recordings_of_examples_are_current(path):
    document = open_store(path).load()
    assert document.version == 2
    assert document.entries
