"""`offbook.serving(mcp=…)`: MCP servers beside the models of one server, by session."""

import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

import offbook
from tests.mcp.wiring import call, post
from tests.servers.loopback import LoopbackServer

RECORDING = {
    "_version": 2,
    "any": {"content": "Hello!"},
    "_tools": {"notes.write": [{"arguments": {"text": "x"}, "result": {"id": 1}}]},
}
NOTES = {"notes": {"url": "http://127.0.0.1:1/mcp", "headers": {"Authorization": "Bearer ${NOTES_KEY}"}}}


def send(url, message):
    request = post(message)
    sent = urllib.request.Request(url, request.body, {**request.headers, "content-type": "application/json"})
    with urllib.request.urlopen(sent) as answered:
        return json.load(answered)


def write(url, **settings):
    return send(url, call("write", {"text": "x"}, era="modern", **settings))


def test_each_session_has_its_own_position_and_faults_of_tools():
    with offbook.serving(responses=RECORDING, strict=True, mcp=NOTES) as server:
        server.start_session("broken", faults=["tool=notes.write call=1: mcp_error"])
        assert write(server.mcp["notes"].url)["result"]["structuredContent"] == {"id": 1}
        assert "error" in write(server.mcp_of_session("broken")["notes"].url)
        assert "result" in write(server.mcp_of_session("broken")["notes"].url)
        assert "error" in write(server.mcp["notes"].url), "its only answer is used"
        made = [(each.name, each.arguments, each.result, each.fault) for each in server.tool_calls]
        assert made[0] == ("notes.write", {"text": "x"}, {"id": 1}, "")
        assert [miss.session for miss in server.misses] == [""]


def test_clients_find_the_servers_by_a_config_that_holds_no_key():
    given = {"mcpServers": NOTES | {"files": {"command": "no-such-server"}}, "other": 1}
    with offbook.serving(responses=RECORDING, mcp=given) as server:
        path = Path(server.env["OFFBOOK_MCP_CONFIG"])
        config = json.loads(path.read_text())
        assert config["mcpServers"] == {name: each.config for name, each in server.mcp.items()}
        assert config["mcpServers"]["notes"] == {"url": f"{server.url}/mcp/notes"}
        assert config["mcpServers"]["files"]["args"][-1] == "offbook.mcp.connect"
        assert config["other"] == 1
    assert not path.parent.exists()


def test_a_real_server_may_repeat_what_its_config_proves(tmp_path):
    answer = {"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": "opaque-4711, opaque-4712"}]}}
    with LoopbackServer(json.dumps(answer).encode()) as upstream:
        server = {"url": f"{upstream.url}/mcp?api_key=opaque-4711", "headers": {"X-Notes-Key": "opaque-4712"}}
        with offbook.serving(record=tmp_path / "run.json", mcp={"notes": server}) as recording:
            assert write(recording.mcp["notes"].url) == answer
    assert "opaque" not in (tmp_path / "run.json").read_text()


def test_a_real_server_gets_the_headers_of_its_config_and_they_are_not_recorded(tmp_path, monkeypatch):
    monkeypatch.setenv("NOTES_KEY", "the key")
    answer = {"jsonrpc": "2.0", "id": 1, "result": {"resultType": "complete", "content": []}}
    with (
        LoopbackServer(json.dumps(answer).encode()) as real,
        offbook.serving(record=tmp_path / "run.json", mcp={"notes": NOTES["notes"] | {"url": real.url}}) as server,
    ):
        assert write(server.mcp["notes"].url) == answer
    assert [received.headers["authorization"] for received in real.calls] == ["Bearer the key"]
    assert "the key" not in (tmp_path / "run.json").read_text()
    with offbook.serving(tmp_path / "run.json", mcp=NOTES) as server:
        assert write(server.mcp["notes"].url)["result"] == answer["result"]


SLOW_TO_END = """
import json, sys, time
for line in sys.stdin:
    print(json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"content": []}}), flush=True)
time.sleep(0.3)
open("ended", "w").close()
"""


def test_a_real_server_may_end_in_its_own_time_when_its_client_has_left(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    real = {"notes": {"command": sys.executable, "args": ["-c", SLOW_TO_END]}}
    with offbook.serving(record="run.json", mcp=real, faults=["tool=notes.write: tool_lost"]) as server:
        entry = server.mcp["notes"].config
        command, environment = [entry["command"], *entry["args"]], os.environ | entry["env"]
        asked = json.dumps(call("write")) + "\n"
        with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as client:
            client.stdin.write(asked.encode())
            client.stdin.flush()
            assert client.wait(30) == 1
    assert Path("ended").exists()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"mcp": {}}, "a server or more"),
        ({"mcp": {"notes": {}}}, "neither a command nor a url"),
        ({"mcp": "no-such.json"}, "No such file"),
        ({"mcp": NOTES, "record": "run.json", "responses": None, "api_key": "k"}, "behind an API key"),
    ],
)
def test_what_is_not_a_config_is_an_error(options, reason):
    with pytest.raises(offbook.InputError, match=reason):
        offbook.serving(**{"responses": RECORDING} | options)
