"""The tools of frameworks are recorded as they run, and replayed without running: each framework in its environment.

An environment is `NAME` in OFFBOOK_ENVS (.scratch/envs), made with `python -m venv` and the package of the framework.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from .standin import Recorded, answering

ROOT = Path(__file__).parents[3]
PROGRAMS = Path(__file__).parent / "programs"
SITE = ROOT / "src/offbook/subjects/program/guest/site"
ENVIRONMENTS = Path(os.environ.get("OFFBOOK_ENVS") or ROOT / ".scratch/envs")
FRAMEWORKS = {
    "agno": "agno",
    "autogen": "autogen-core",
    "claude_agent_sdk": "claude-agent-sdk",
    "crewai": "crewai",
    "dspy": "dspy",
    "fastmcp": "fastmcp",
    "google_adk": "google-adk",
    "haystack": "haystack-ai",
    "llama_index": "llama-index-core",
    "mcp1": "mcp",
    "mcp2": "mcp",
    "semantic_kernel": "semantic-kernel",
    "smolagents": "smolagents",
    "strands": "strands-agents",
}
"""The package of each program's framework."""


def run(name: str, recorded: Recorded, folder: Path) -> tuple[Any, list[Any]]:
    """Run a program in its environment; returns what it printed, and the calls of tools that ran for real."""
    python = ENVIRONMENTS / name / "bin/python"
    if not python.exists():
        pytest.skip(f"{FRAMEWORKS[name]} is not installed in {python.parent.parent}")
    ledger = folder / "ledger"
    ledger.write_text("")
    with answering(recorded) as url:
        environment = os.environ | {"OFFBOOK_TOOLS_URL": url, "PYTHONPATH": str(SITE), "LEDGER": str(ledger)}
        command = [python, PROGRAMS / f"with_{name}.py"]
        ended = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-4000:]
    return json.loads(ended.stdout.splitlines()[-1]), [json.loads(line) for line in ledger.read_text().splitlines()]


def in_order(calls: list[Any]) -> list[Any]:
    return sorted(calls, key=json.dumps)


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_tools_are_recorded_once_and_replayed_without_running(name: str, tmp_path: Path) -> None:
    recorded = Recorded()
    printed, ran = run(name, recorded, tmp_path)
    assert [note for note in recorded.notes if "problem" in note] == []
    assert FRAMEWORKS[name] in {note.get("framework") for note in recorded.notes}
    assert in_order([[call["tool"], call["arguments"]] for call in recorded.calls]) == in_order(ran)
    assert len(ran) > 2

    recorded.is_replayed = True
    printed_again, ran_again = run(name, recorded, tmp_path)
    assert recorded.unanswered == []
    assert ran_again == []
    assert printed_again == printed
    assert all(call.get("is_used") for call in recorded.calls)
