"""Real agents, unmodified: recorded with real models' APIs and servers, replayed without, and broken by each fault."""

import json
import os
import subprocess

import pytest

from offbook import serving
from tests.mcp.agents.catalog import ANSWER, COMMAND, FRAMEWORKS, NODE_SERVER, NUMBERS, PYTHON_SERVER, SCRATCH, script
from tests.mcp.agents.table import ENTRIES, RENEWAL, TABLE, observed
from tests.mcp.clients.test_clients import MCP2, web  # noqa: F401 - a fixture
from tests.servers.foreign import skip_or_fail

TIMEOUT_S = 180
TOOLS = ("add", "get-sum")
pytestmark = [pytest.mark.xdist_group("mcp agents"), pytest.mark.timeout(400)]
every_framework = pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda framework: framework.name)
both_transports = pytest.mark.parametrize("transport", ENTRIES)


@pytest.fixture(scope="module", autouse=True)
def _agents():
    missing = [str(path) for path in (MCP2, SCRATCH / "mcp1/bin/python", NODE_SERVER) if not path.exists()]
    skip_or_fail(f"{missing[0]} is missing: make mcp-clients" if missing else "", "NODE")


def execute(folder, framework, *arguments, is_mcp=True, **variables):
    """Run the agent of a framework by `offbook exec`, which stands in for its servers if `is_mcp`."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}
    config = "{mcp}" if is_mcp else ".mcp.json"
    arguments = [*arguments, *(["--mcp", ".mcp.json"] if is_mcp else [])]
    command = [COMMAND, "exec", *arguments, "--", *framework.command, config]
    return subprocess.run(
        command,
        cwd=folder,
        env=environment | variables,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def write_config(folder, **servers):
    (folder / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))


@every_framework
@both_transports
def test_an_agent_is_recorded_and_replayed_without_its_servers_and_keys(tmp_path, framework, transport, web):  # noqa: F811
    python = {
        "stdio": {"command": str(MCP2), "args": [str(PYTHON_SERVER)]},
        "HTTP": {"type": "http", "url": f"http://127.0.0.1:{web}/mcp"},
    }
    # the stdio client of mcp 1 fails if a server sends something while it closes, as the one in Node does
    has_node = framework.environment != "mcp1"
    everything = {"everything": {"command": "node", "args": [str(NODE_SERVER)]}} if has_node else {}
    write_config(tmp_path, notes=python[transport], **everything)
    with serving(responses=script(*TOOLS[: 1 + has_node]), strict=True) as model:
        upstream = f"openai={model.url}/v1"
        recorded = execute(
            tmp_path, framework, "--record", "run.json", "--upstream", upstream, OPENAI_API_KEY="sk-a-real-key"
        )
    assert recorded.returncode == 0, recorded.stderr
    assert recorded.stdout == ANSWER, recorded.stderr
    recording = json.loads((tmp_path / "run.json").read_text())
    results = {tool: [each["result"] for each in calls] for tool, calls in recording["_tools"].items()}
    sums = {"everything.get-sum": ["The sum of 1 and 2 is 3."]} if has_node else {}
    assert results == {"notes.add": [3], **sums}

    write_config(tmp_path, notes=ENTRIES[transport], **dict.fromkeys(everything, ENTRIES["stdio"]))
    replayed = execute(tmp_path, framework, "--replay", "run.json", "--strict-unused")
    assert replayed.returncode == 0, replayed.stderr
    assert replayed.stdout == ANSWER, replayed.stderr


@every_framework
def test_the_tools_of_a_server_without_a_stand_in_are_recorded_once_and_replayed(tmp_path, framework):
    write_config(tmp_path, notes={"command": str(MCP2), "args": [str(PYTHON_SERVER)]})
    with serving(responses=script("add"), strict=True) as model:
        words = ("--record", "run.json", "--upstream", f"openai={model.url}/v1")
        recorded = execute(tmp_path, framework, *words, is_mcp=False, OPENAI_API_KEY="sk-a-real-key")
    assert recorded.stdout == ANSWER, recorded.stderr
    tools = json.loads((tmp_path / "run.json").read_text())["_tools"]
    assert {tool: [each["arguments"] for each in calls] for tool, calls in tools.items()} == {"add": [NUMBERS]}
    replayed = execute(tmp_path, framework, "--replay", "run.json", "--strict-unused", is_mcp=False)
    assert replayed.returncode == 0, replayed.stderr
    assert replayed.stdout == ANSWER


@every_framework
def test_a_tool_call_that_was_not_recorded_fails_the_run_whoever_catches_its_error(tmp_path, framework):
    write_config(tmp_path, notes=ENTRIES["stdio"])
    other = {"_version": 2, "_tools": {"notes.add": [{"arguments": NUMBERS | {"b": 3}, "result": 4}]}}
    (tmp_path / "run.json").write_text(json.dumps(script("add") | other))
    run = execute(tmp_path, framework, "--replay", "run.json")
    assert run.returncode == 3, run.stderr
    assert "tools/call notes.add has no answer" in run.stderr


@every_framework
@both_transports
def test_the_page_says_what_an_agent_does_about_each_fault(framework, transport):
    column = f"{framework.name}, {transport}"
    seen = observed(framework, transport)
    assert {column: TABLE.read()[column]} == {column: seen}, RENEWAL


@every_framework
def test_the_page_names_the_versions_that_were_observed(framework):
    (packages,) = (SCRATCH / framework.environment / "lib").glob("python*/site-packages")
    installed = [next(packages.glob(f"{name.replace('-', '_')}-*.dist-info")).name for name in framework.packages]
    versions = [name.removesuffix(".dist-info").rpartition("-")[2] for name in installed]
    named = [f"{name} {version}" for name, version in zip(framework.packages, versions, strict=True)]
    assert [each for each in named if each not in TABLE.section()] == []
