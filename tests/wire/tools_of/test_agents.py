"""Agents of each framework, by the commands of a user: recorded, replayed, broken and explored, and nothing runs twice.

Environments are made by `make works-with`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import offbook

from .catalog import TRIED, Framework

PROGRAMS = Path(__file__).parent / "agents"
COMMAND = Path(sys.executable).parent / "offbook"
FAULTS = ("injected_text", "oversized_result", "tool_empty", "tool_error", "tool_garbled", "tool_lost", "tool_timeout")
"""Those of any tool. The others are of MCP servers."""
EXPLORED = tuple(fault for fault in FAULTS if fault.startswith("tool_"))
"""Those that explorations try by themselves."""
LEDGER = "look_up 7\nrefund 7\n"
TIMEOUT_S = 300
pytestmark = pytest.mark.timeout(900)


def _asks_for(tool: str) -> dict[str, Any]:
    return {"tool_calls": [{"id": f"call_{tool}", "name": tool, "arguments": {"order": 7}}]}


def _thought(tool: str, **arguments: Any) -> dict[str, Any]:
    """How DSPy has a model ask for a tool."""
    fields = {"next_thought": "Go on.", "next_tool_name": tool, "next_tool_args": json.dumps(arguments)}
    return {"content": "".join(f"[[ ## {name} ## ]]\n{text}\n\n" for name, text in fields.items())}


SAID = {
    "claude_agent_sdk": [_asks_for("mcp__shop__look_up"), _asks_for("mcp__shop__refund"), {"content": "Done."}],
    "dspy": [
        _thought("look_up", order=7),
        _thought("refund", order=7),
        _thought("finish"),
        {"content": "[[ ## reasoning ## ]]\nIt is.\n\n[[ ## answer ## ]]\nDone.\n\n[[ ## completed ## ]]\n"},
    ],
    "sub_openai_agents": [
        {"tool_calls": [{"id": "call_1", "name": "research", "arguments": {"input": "order 7"}}]},
        _asks_for("look_up"),
        {"content": "It is paid."},
        {"tool_calls": [{"id": "call_2", "name": "transfer_to_cashier", "arguments": {}}]},
        _asks_for("refund"),
        {"content": "Done."},
    ],
    "semantic_kernel": [_asks_for("Shop-look_up"), _asks_for("Shop-refund"), {"content": "Done."}],
    "smolagents": [
        _asks_for("look_up"),
        _asks_for("refund"),
        {"tool_calls": [{"id": "call_end", "name": "final_answer", "arguments": {"answer": "Done."}}]},
    ],
}
"""What the model says, where it is not a call of each tool and an answer."""
PREFIXES = {"claude_agent_sdk": "mcp__shop__", "semantic_kernel": "Shop-"}
"""How the names of tools begin, as models know them."""


class Recorded:
    """An agent with its recording, in a folder of its own."""

    def __init__(self, framework: Framework, folder: Path, *, program: str = "") -> None:
        self.folder = folder
        name = program or f"with_{framework.name}"
        self._program = ["--", str(framework.python), str(PROGRAMS / f"{name}.py")]
        self.tools = [f"{PREFIXES.get(framework.name, '')}{each}" for each in ("look_up", "refund")]
        kinds = dict(zip(self.tools, ("read_only", "effect"), strict=True))
        config = "".join(f"[tools.{json.dumps(tool)}]\n{kind} = true\n" for tool, kind in kinds.items())
        (folder / "offbook.toml").write_text(config)
        said = SAID.get(program or framework.name, [_asks_for("look_up"), _asks_for("refund"), {"content": "Done."}])
        with offbook.serving(responses={"turns": said}) as upstream:
            bases = {"openai": f"{upstream.url}/v1", "anthropic": upstream.url, "google": upstream.url}
            upstreams = [word for vendor, url in bases.items() for word in ("--upstream", f"{vendor}={url}")]
            self.recording = self.run("exec", "--record", "run.json", *upstreams)
        assert self.recording.returncode == 0, self.recording.stderr
        self.ledger = self.take_ledger()

    def run(self, command: str, *words: str) -> subprocess.CompletedProcess[str]:
        keys = dict.fromkeys(("ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "OPENAI_API_KEY"), "sk-test")
        return subprocess.run(
            [COMMAND, command, *words, *self._program],
            cwd=self.folder,
            env=os.environ | keys | {"HOME": str(self.folder)},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )

    def take_ledger(self) -> str:
        """Which tools have run for real since the last time."""
        path = self.folder / "ledger"
        text = path.read_text() if path.exists() else ""
        path.unlink(missing_ok=True)
        return text


@pytest.fixture(
    scope="module",
    params=[pytest.param(each, id=each.name, marks=pytest.mark.xdist_group(each.name)) for each in TRIED],
)
def agent(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    framework: Framework = request.param
    if not framework.is_installed:
        pytest.skip(f"{framework.package} is not installed: make works-with")
    return Recorded(framework, tmp_path_factory.mktemp(framework.name))


def test_each_call_is_recorded_once(agent: Recorded) -> None:
    recorded = json.loads((agent.folder / "run.json").read_text())["_tools"]
    assert agent.recording.stdout == "Done.\n"
    assert agent.ledger == LEDGER
    orders = {tool: [each["arguments"]["order"] for each in calls] for tool, calls in recorded.items()}
    assert orders == {tool: [7] for tool in agent.tools}


def test_a_replay_says_the_same_and_runs_no_tool(agent: Recorded) -> None:
    replayed = agent.run("exec", "--replay", "run.json", "--strict-unused")
    assert replayed.returncode == 0, replayed.stderr
    assert replayed.stdout == "Done.\n"
    assert agent.take_ledger() == ""


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_of_a_tool_fires(agent: Recorded, fault: str) -> None:
    line = f"tool={agent.tools[1]} call=1: {fault}"
    broken = agent.run("exec", "--replay", "run.json", "--lenient", "--fault", line)
    assert f"1 fault fired: {line}" in broken.stderr
    assert agent.take_ledger() == ""


def test_an_exploration_fires_each_fault_at_each_tool_and_runs_none(agent: Recorded) -> None:
    explored = agent.run("explore", "--replay", "run.json", "--faults", ",".join(EXPLORED), "--json")
    assert explored.returncode in (0, 1), explored.stderr
    assert _fired(explored) >= {f"tool={tool} call=1: {fault}" for tool in agent.tools for fault in EXPLORED}
    assert agent.take_ledger() == ""


@pytest.mark.parametrize("fault", sorted(set(FAULTS) - set(EXPLORED)))
def test_an_exploration_fires_a_fault_that_is_asked_for_and_runs_none(agent: Recorded, fault: str) -> None:
    line = f"tool={agent.tools[1]} call=1: {fault}"
    explored = agent.run("explore", "--replay", "run.json", "--fault", line, "--json")
    assert explored.returncode in (0, 1), explored.stderr
    assert line in _fired(explored)
    assert agent.take_ledger() == ""


def test_agents_behind_a_tool_run_in_a_replay_and_their_tools_do_not(tmp_path: Path) -> None:
    framework = next(each for each in TRIED if each.name == "openai_agents")
    if not framework.is_installed:
        pytest.skip(f"{framework.package} is not installed: make works-with")
    agents = Recorded(framework, tmp_path, program="sub_openai_agents")
    assert "not recorded" not in agents.recording.stderr
    assert agents.ledger == LEDGER
    replayed = agents.run("exec", "--replay", "run.json", "--strict-unused")
    assert (replayed.returncode, replayed.stdout) == (0, "Done.\n"), replayed.stderr
    listed = agents.run("explore", "--replay", "run.json", "--list")
    assert listed.returncode == 0, listed.stderr
    assert agents.take_ledger() == ""


def _fired(explored: subprocess.CompletedProcess[str]) -> set[str]:
    """The faults that fired, without their parameters: `tool=refund call=1: tool_timeout`."""
    fired = (line for each in json.loads(explored.stdout)["explored"] for line in each["run"]["fired"])
    return {f"{place}: {fault.split()[0]}" for place, _, fault in (line.partition(": ") for line in fired)}
