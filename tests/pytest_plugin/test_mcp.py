"""`offbook.mcp` of the fixture: MCP servers of a test, recorded and replayed with its models."""

import json

import httpx2  # noqa: F401 - loaded here, or each inner run would load it anew
import pytest

import offbook.server  # noqa: F401
from tests.pytest_plugin.conftest import printed_output

CLIENT = """
import json, os, subprocess, sys, urllib.request
from pathlib import Path

import offbook as library
from offbook import Trajectory, assert_trajectory, expected

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
REAL = {"_version": 2, "_tools": {
    "github.create_issue": [
        {"arguments": {"title": "A"}, "result": "#1"},
        {"arguments": {"title": "B"}, "result": "#2"},
    ],
}}


def message(method, **params):
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params | {"_meta": META}}


def call(url, tool, **arguments):
    headers = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
    headers |= {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": tool}
    body = json.dumps(message("tools/call", name=tool, arguments=arguments)).encode()
    with urllib.request.urlopen(urllib.request.Request(url, body, headers)) as answered:
        return json.load(answered)


def read(path):
    return json.loads(Path(path).read_text())


def real(*names):
    return library.serving(responses=REAL, strict=True, mcp={name: {"url": "http://127.0.0.1:1/mcp"} for name in names})
"""
ISSUES = """
from client import *

def test_issues(offbook):
    offbook.live(Echo)
    with real("github") as upstream, offbook.mcp("github", url=upstream.mcp["github"].url) as github:
        assert greet(offbook) == "Hello Ada"
        for title in ("A", "B"):
            call(github.url, "create_issue", title=title)
    assert_trajectory(offbook.tool_calls, Trajectory("strict", [
        expected("github.create_issue", args={"title": "A"}), expected("github.create_issue", args={"title": "B"}),
    ]))
    assert [made.result for made in offbook.tool_calls] == ["#1", "#2"]
"""
REPLAYS = """
from client import *

def test_issues(offbook):
    assert greet(offbook) == "Hello Ada"
    with offbook.mcp("github") as github:
        BODY
"""


RECORDING = "recordings/test_it/test_issues.json"
RECORDED = {
    "_version": 2,
    "greet": {"content": "Hello Ada"},
    "_tools": {
        "github.create_issue": [
            {"arguments": {"title": "A"}, "result": "#1"},
            {"arguments": {"title": "B"}, "result": "#2"},
        ]
    },
    "_mcp": {"github": {"tools/list": [{"arguments": {}, "result": {"tools": []}}]}},
}


@pytest.fixture
def issues(project):
    """A project with the recording of two calls of a tool and one of a model."""
    project.write("client.py", CLIENT)
    project.write(RECORDING, json.dumps(RECORDED))
    return project


def replay(project, body, *arguments, marker=""):
    project.test(REPLAYS.replace("BODY", body.replace("\n", "\n        ")).replace("def test", f"{marker}\ndef test"))
    return project.run(*arguments)


BOTH = 'assert call(github.url, "create_issue", title="A")["result"]["content"][0]["text"] == "#1"\n'
BOTH += 'call(github.url, "create_issue", title="B")'


def test_tools_are_in_the_recording_of_the_models_and_replayed_without_the_server(project):
    project.write("client.py", CLIENT)
    project.test(ISSUES)
    recording = project.record()
    recording.assert_outcomes(passed=1)
    assert "0 calls served from recordings, 3 recorded live, 0 missed" in printed_output(recording)
    recorded = json.loads((project.folder / RECORDING).read_text())
    assert [each["result"] for each in recorded["_tools"]["github.create_issue"]] == ["#1", "#2"]
    assert "greet" in recorded
    result = replay(project, BOTH, "--offbook-strict-unused")
    result.assert_outcomes(passed=1)
    assert "3 calls served from recordings, 0 recorded live, 0 missed" in printed_output(result)


def test_blocks_of_one_test_share_one_position_in_the_recording(issues):
    body = 'call(github.url, "create_issue", title="B")\nassert github.name == "github"'
    again = '\nwith offbook.mcp("github") as again:\n    call(again.url, "create_issue", title="A")'
    replay(issues, body + again, "--offbook-strict-unused").assert_outcomes(passed=1)
    twice = replay(issues, body + again.replace('"A"', '"B"'))
    assert "tools/call github.create_issue" in printed_output(twice)


def test_a_call_that_is_not_recorded_fails_the_test_even_if_the_agent_goes_on(issues):
    result = replay(issues, 'assert "error" in call(github.url, "create_issue", title="C")')
    result.assert_outcomes(failed=1)
    said = printed_output(result)
    assert "1 call not recorded:\n" in said
    assert "tools/call github.create_issue" in said
    assert "--offbook-record=fresh" in said


def test_unused_tool_calls_are_listed_and_fail_a_strict_test(issues):
    one = BOTH.splitlines()[0]
    result = replay(issues, one)
    result.assert_outcomes(passed=1)
    assert "not used in recordings/test_it/test_issues.json: _tools.github.create_issue[1]" in printed_output(result)
    assert "tools/list" not in printed_output(result)
    replay(issues, one, "--offbook-strict-unused").assert_outcomes(failed=1)


def test_faults_of_tools_fire_and_one_that_does_not_fails_the_test(issues):
    lost = """offbook.faults("tool=github.create_issue call=1: mcp_error")
assert "error" in call(github.url, "create_issue", title="A")
assert call(github.url, "create_issue", title="A")["result"]["content"][0]["text"] == "#1"
assert [(made.fault, made.error is None) for made in offbook.tool_calls] == [("mcp_error", False), ("", True)]"""
    replay(issues, lost).assert_outcomes(passed=1)
    result = replay(
        issues, BOTH.replace("assert", 'offbook.faults("tool=github.create_issue call=9: mcp_error")\nassert')
    )
    result.assert_outcomes(failed=1)
    assert "the fault 'tool=github.create_issue call=9: mcp_error' never fired" in printed_output(result)


def test_faults_break_what_a_test_records_and_not_the_recording(project):
    project.write("client.py", CLIENT)
    faulty = ISSUES.replace(
        "    offbook.live", "    offbook.faults('tool=github.create_issue call=1: tool_garbled')\n    offbook.live"
    )
    project.test(faulty.replace('== ["#1", "#2"]', '!= ["#1", "#2"]'))
    project.record().assert_outcomes(passed=1)
    recorded = json.loads((project.folder / RECORDING).read_text())
    assert recorded["_tools"]["github.create_issue"][0]["result"] == "#1"


def test_several_servers_are_in_one_config(issues):
    body = """with offbook.mcp("web", url="https://example.com/mcp", headers={"Authorization": "Bearer x"}) as web:
    assert read(web.path) == {"mcpServers": {"github": github.config, "web": web.config}} == read(github.path)
    assert web.config == {"url": web.url}
assert list(read(github.path)["mcpServers"]) == ["github"]
"""
    replay(issues, body + BOTH).assert_outcomes(passed=1)


def test_only_what_is_missing_is_recorded_with_new(issues):
    kept = {**RECORDED, "_tools": {"github.create_issue": [{"arguments": {"title": "A"}, "result": "#by hand"}]}}
    issues.write(RECORDING, json.dumps(kept))
    issues.test(ISSUES.replace('["#1", "#2"]', '["#by hand", "#2"]'))
    result = issues.run("--offbook-record=new")
    result.assert_outcomes(passed=1)
    assert "2 calls served from recordings, 1 recorded live, 0 missed" in printed_output(result)
    recorded = json.loads((issues.folder / RECORDING).read_text())
    assert [each["result"] for each in recorded["_tools"]["github.create_issue"]] == ["#by hand", "#2"]


def test_an_explored_test_refuses_mcp_servers(issues):
    result = replay(issues, BOTH, marker=f"@pytest.mark.explore(recording={RECORDING!r}, isolated=False)")
    assert "MCP servers are not explored in a test" in printed_output(result)


FUNCTIONS = """
from client import *

def test_functions(offbook):
    def create_issue(title: str) -> dict:
        return {"id": len(title)}

    offbook.faults("tool=github.create_issue call=1: tool_error")
    with offbook.mcp("github", tools=[create_issue]) as github:
        assert call(github.url, "create_issue", title="Bug")["result"]["isError"]
        assert call(github.url, "create_issue", title="Bug")["result"]["structuredContent"] == {"id": 3}
    assert [(made.arguments, made.result, made.fault) for made in offbook.tool_calls] == [
        ({"title": "Bug"}, None, "tool_error"), ({"title": "Bug"}, {"id": 3}, ""),
    ]
"""


@pytest.mark.parametrize("options", [(), ("--offbook-record=once",)], ids=["replayed", "recorded"])
def test_functions_answer_instead_of_a_server_without_a_recording(project, options):
    project.write("client.py", CLIENT)
    project.test(FUNCTIONS)
    project.run(*options).assert_outcomes(passed=1)
    assert project.recordings() == []


STDIO_SERVER = """
import json, os, sys

for line in sys.stdin:
    asked = json.loads(line)
    result = {"content": [{"type": "text", "text": os.environ["NOTES_KEY"] + str(asked["params"].get("arguments"))}]}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""
STDIO_TEST = """
import sys
from client import *

def test_notes(offbook):
    command = [sys.executable, "server.py"] if offbook.is_recording else ["no-such-server"]
    with offbook.mcp("notes", command=command, env={"NOTES_KEY": "key "}) as notes:
        entry = read(notes.path)["mcpServers"]["notes"]
        assert entry == notes.config
        asked = json.dumps(message("tools/call", name="read", arguments={"page": 1})) + "\\n"
        started = [entry["command"], *entry["args"]]
        done = subprocess.run(started, input=asked, env=os.environ | entry["env"], capture_output=True, text=True)
        assert "'page': 1" in json.loads(done.stdout)["result"]["content"][0]["text"]
        if offbook.is_recording:
            with pytest.raises(library.InputError, match="has no URL"):
                notes.url
    assert [(made.name, made.arguments) for made in offbook.tool_calls] == [("notes.read", {"page": 1})]
"""


def test_a_server_over_stdio_is_started_for_a_recording_alone(project):
    project.write("client.py", CLIENT)
    project.write("server.py", STDIO_SERVER)
    project.test(STDIO_TEST)
    project.record().assert_outcomes(passed=1)
    project.run("--offbook-strict-unused").assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ("'github'", "there is no server to record"),
        ("'github', command='npx some-server'", "expected a list of str"),
        ("'github', command=['x'], url='http://127.0.0.1:1/mcp'", "only one of them"),
        ("'github', url='example.com'", "expected the URL of an MCP server"),
        ("'github', url='http://127.0.0.1:1/mcp', headers={'x': 1}", "expected an object of str"),
    ],
)
def test_what_is_not_a_server_is_an_error_that_says_why(project, arguments, reason):
    project.test(f"def test_it(offbook):\n    with offbook.mcp({arguments}):\n        pass")
    result = project.record()
    result.assert_outcomes(failed=1)
    assert reason in printed_output(result)


def test_a_replay_without_a_recording_says_how_to_record(project):
    project.test("def test_it(offbook):\n    with offbook.mcp('github'):\n        pass")
    result = project.run()
    assert "no such recording" in printed_output(result)
    assert "--offbook-record=once" in printed_output(result)
