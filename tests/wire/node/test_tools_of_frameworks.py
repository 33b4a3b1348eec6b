"""The tools of agents for Node: recorded, replayed without running, broken and explored, without a change to them."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import offbook
from offbook.wire.tool_variables import URL_VARIABLE, tool_variables
from tests.servers.foreign import skip_or_fail
from tests.wire.node.agents import NEWER, PACKAGES
from tests.wire.node.driver import SDKS, require
from tests.wire.tools_of.standin import Recorded, answering

AGENTS = Path(__file__).parent / "agents"
OFFBOOK = Path(sys.executable).with_name("offbook")
FRAMEWORKS = {
    "ai_sdk": "ai",
    "openai_agents": "@openai/agents-core",
    "langchain": "@langchain/core",
    "mastra": "@mastra/core",
    "by_hand": "",
}
FAULTS = ("tool_error", "tool_lost", "tool_timeout 1000", "tool_empty", "tool_garbled")
EFFECTS = """
[tools.look]
read_only = true
[tools.refund]
effect = true
[tools.forget]
effect = true
"""
PLACES = """
[tools.look]
function = "./shop.mjs:look"
read_only = true
[tools.refund]
function = "./shop.mjs:refund"
effect = true
[tools.forget]
function = "./shop.mjs:forget"
effect = true
"""


def asks_for(*calls):
    """An answer that asks for tools, each with an order."""
    called = [{"id": f"c-{name}-{order}", "name": name, "arguments": {"order": order}} for name, order in calls]
    return {"tool_calls": called}


ANSWERS = [
    asks_for(("look", 7)),
    asks_for(("refund", 7), ("refund", 13)),
    asks_for(("forget", 7)),
    {"content": "Done."},
]


class Project:
    """A folder with an agent, the packages that it needs and a ledger of the tools that have run."""

    answers = ANSWERS

    def __init__(self, folder, agent, packages, *, node=None):
        for name in ("shop.mjs", f"{agent}.mjs"):
            shutil.copy(AGENTS / name, folder / name)
        (folder / "node_modules").symlink_to(packages / "node_modules")
        (folder / "offbook.toml").write_text(PLACES if agent == "by_hand" else EFFECTS)
        self.folder, self.ledger, self.program = folder, folder / "ledger", ["--", "node", f"{agent}.mjs"]
        own = {"LEDGER": str(self.ledger), "OFFBOOK_RUNS_DIR": str(folder / "runs"), "OPENAI_API_KEY": "sk-test"}
        path = [str(Path(node).parent)] if node else []
        self._environment = os.environ | own | {"PATH": os.pathsep.join([*path, os.environ["PATH"]])}

    def offbook(self, *words, **variables):
        """Run `offbook …`; returns its exit code, what was printed, and its messages."""
        environment = self._environment | variables
        ended = subprocess.run(
            [OFFBOOK, *words, *self.program],
            env=environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )
        return ended.returncode, ended.stdout, ended.stderr

    def record(self, **variables):
        """Record the agent; returns what it printed, and the lines of the ledger, which is empty again."""
        with offbook.serving(responses={"any": self.answers}) as upstream:
            variables |= {"OPENAI_BASE_URL": f"{upstream.url}/v1"}
            code, out, err = self.offbook("exec", "--record", "run.json", **variables)
        assert code == 0, err
        assert "cannot be taken over" not in err
        ran = self.ledger.read_text().splitlines()
        self.ledger.unlink()
        return out, ran


def project_of(agent, folder):
    is_installed = bool(list(PACKAGES.glob(".ready-*")))
    skip_or_fail("" if is_installed else "the frameworks for Node are not installed: run `make node-agents`", "NODE")
    return Project(folder, agent, PACKAGES, node=NEWER)


@pytest.fixture(params=FRAMEWORKS)
def project(request, tmp_path):
    """A project with an agent of each framework, on the newer Node."""
    return project_of(request.param, tmp_path)


@pytest.fixture(params=["ai_sdk", "by_hand"])
def older(request, tmp_path):
    """A project on the Node of this machine, with the AI SDK that runs there."""
    require()
    return Project(tmp_path, request.param, SDKS)


RAN = ["look 7", "refund 7", "refund 13", "forget 7"]


def assert_recorded_and_replayed(project, **variables):
    printed, ran = project.record(**variables)
    assert ran == RAN
    tools = json.loads((project.folder / "run.json").read_text())["_tools"]
    assert {name: [call["arguments"]["order"] for call in calls] for name, calls in tools.items()} == {
        "look": [7],
        "refund": [7, 13],
        "forget": [7],
    }
    code, out, err = project.offbook("exec", "--replay", "run.json", **variables)
    assert (code, out) == (0, printed), err
    assert not project.ledger.exists()


def test_tools_are_recorded_and_replayed_without_running(project):
    assert_recorded_and_replayed(project)


def test_tools_are_recorded_and_replayed_on_an_older_node(older):
    assert_recorded_and_replayed(older)


@pytest.mark.parametrize("project", ["ai_sdk"], indirect=True)
def test_tools_of_a_streamed_answer_are_taken_over(project):
    assert_recorded_and_replayed(project, STREAMED="1")


def test_agents_behind_a_tool_run_in_a_replay_and_their_tools_do_not(tmp_path):
    project = project_of("sub_agents", tmp_path)
    project.answers = [
        {"tool_calls": [{"id": "c1", "name": "research", "arguments": {"input": "order 7"}}]},
        asks_for(("look", 7)),
        {"content": "It costs 12.5."},
        {"tool_calls": [{"id": "c2", "name": "transfer_to_cashier", "arguments": {}}]},
        asks_for(("refund", 7)),
        {"content": "Done."},
    ]
    printed, ran = project.record()
    assert (printed, ran) == ("Done.\n", ["look 7", "refund 7"])
    code, out, err = project.offbook("exec", "--replay", "run.json")
    assert (code, out) == (0, printed), err
    assert "8 calls, 8 served" in err
    code, _, err = project.offbook("explore", "--replay", "run.json", "--list")
    assert code == 0, err
    assert not project.ledger.exists()


def test_each_fault_of_a_tool_fires_and_nothing_runs(project):
    project.record()
    for fault in FAULTS:
        line = f"tool=refund call=1: {fault}"
        _, _, err = project.offbook("exec", "--replay", "run.json", "--fault", line)
        assert f"1 fault fired: {line}" in err
    assert not project.ledger.exists()


def assert_explored(project):
    project.record()
    code, out, err = project.offbook("explore", "--replay", "run.json", "--faults", "tool_lost", "--json")
    assert code in (0, 1), err
    cases = {case["case"] for case in json.loads(out)["explored"]}
    assert {f"tool={tool} call=1: tool_lost" for tool in ("look", "refund", "forget")} <= cases
    assert not project.ledger.exists()


def test_an_exploration_breaks_the_tools_and_runs_none(project):
    assert_explored(project)


def test_an_exploration_runs_no_tool_on_an_older_node(older):
    assert_explored(older)


UNKNOWN = {
    "ai": ("dist/index.js", "export async function executeTool() {}"),
    "@openai/agents-core": ("dist/tool.mjs", "export function tool(options) { return options; }"),
    "@langchain/core": ("dist/tools/index.js", "export class StructuredTool {}"),
    "@mastra/core": ("dist/index.js", "export class Agent {}"),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_framework_of_an_unknown_shape_is_noted_and_left_alone(name, tmp_path):
    file, source = UNKNOWN[name]
    folder = tmp_path / "node_modules" / name
    (folder / file).parent.mkdir(parents=True)
    (folder / file).write_text(source)
    (folder / "package.json").write_text(json.dumps({"version": "99.1.0", "type": "module", "exports": f"./{file}"}))
    (tmp_path / "program.mjs").write_text(f"import * as all from '{name}';")
    recorded = Recorded()
    with answering(recorded) as url:
        environment = os.environ | tool_variables({}, "", {}) | {URL_VARIABLE: url}
        subprocess.run(["node", "program.mjs"], cwd=tmp_path, env=environment, check=True, timeout=60)
    [note] = recorded.notes
    assert (note["framework"], note["version"]) == (name, "99.1.0")
    assert note["problem"]
