"""The tools of our own MCP server."""

import json
import subprocess
import sys

import pytest

from offbook.errors import InputError
from offbook.view.agent_tools import LibraryTools
from tests.view import sample


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return LibraryTools(sample.write_runs(tmp_path_factory.mktemp("runs")))


def test_runs_are_listed_and_searched(runs):
    everything = runs.list_runs(limit=2)
    assert everything["total"] > 5
    assert len(everything["runs"]) == 2
    assert {run["kind"] for run in runs.list_runs("exploration")["runs"]} == {"exploration"}


def test_a_recording_is_shown_as_a_conversation(runs):
    shown = runs.show_recording("refund-tuesday.json", first_call=2, calls=1)
    (call,) = shown["calls"]
    assert shown["total"] > 2
    assert call["row"]["number"] == 2


def test_a_finding_is_explained_with_its_evidence_and_how_to_reproduce_it(runs):
    findings = runs.list_findings("explored/v1.json")["findings"]
    assert [each["finding"] for each in findings] == list(range(1, len(findings) + 1))
    explained = runs.explain_finding("explored/v1.json", 1)
    assert explained["title"] == findings[0]["title"]
    assert explained["verdict"] == findings[0]["verdict"]
    assert explained["cases"][0] == findings[0]["first_case"]
    assert explained["meaning"] != ""
    assert explained["reproduce"] != ""
    with pytest.raises(InputError, match="there is no finding 99"):
        runs.explain_finding("explored/v1.json", 99)


@pytest.mark.parametrize("run", ["../secret.json", "/etc/passwd", "", "no such"])
def test_nothing_outside_of_the_folder_is_read(runs, run):
    with pytest.raises(InputError, match="there is no run"):
        runs.show_recording(run)


def test_only_who_is_allowed_to_explores(tmp_path):
    reading = ["list_runs", "show_recording", "list_findings", "explain_finding"]
    assert [tool.name for tool in LibraryTools(tmp_path).tools()] == reading
    tools = LibraryTools(tmp_path, explores=True).tools()
    assert [tool.name for tool in tools] == [*reading, "explore"]
    assert [tool.declaration.read_only for tool in tools] == [True] * 4 + [False]


async def test_what_an_exploration_says_is_wrong_reaches_the_agent(tmp_path):
    sample.write_runs(tmp_path)
    with pytest.raises(InputError, match="no_such_fault"):
        await LibraryTools(tmp_path, explores=True).explore("refund-tuesday.json", ["true"], faults="no_such_fault")


def test_the_command_answers_until_its_input_ends(tmp_path):
    sample.write_runs(tmp_path)
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    lines = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "list_runs", "arguments": {}}},
    ]
    main = "from offbook.cli.main import main; main()"
    ran = subprocess.run(
        [sys.executable, "-c", main, "mcp-server", str(tmp_path)],
        input="".join(json.dumps(line) + "\n" for line in lines),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0
    assert ran.stderr == ""
    answers = {each["id"]: each["result"] for each in map(json.loads, ran.stdout.splitlines())}
    assert answers[1]["serverInfo"]["name"] == "offbook"
    assert answers[2]["structuredContent"]["total"] > 5
