"""offbook test with agents that have MCP servers: recorded and replayed with their conversations."""

import json
import sys

import pytest

from tests.servers.loopback import LoopbackServer
from tests.servers.models import ChatModel, said

AGENT = """\
import json, os, subprocess, urllib.request
from pathlib import Path


VERSION = "2026-07-28"
META = {"io.modelcontextprotocol/protocolVersion": VERSION, "io.modelcontextprotocol/clientCapabilities": {}}
HEADERS = {"mcp-protocol-version": VERSION, "mcp-method": "tools/call", "mcp-name": "write"}


def message(text):
    params = {"name": "write", "arguments": {"text": text}, "_meta": META}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})


def read(data):
    answer = json.loads(data)
    return "swallowed" if "error" in answer else answer["result"]["content"][0]["text"]


def write(messages, ctx):
    request = urllib.request.Request(ctx.mcp["notes"].url, message(messages[-1]["content"]).encode(), HEADERS)
    with urllib.request.urlopen(request) as answered:
        return read(answered.read())


def run_client(messages, ctx):
    server = json.loads(Path(ctx.mcp["notes"].path).read_text())["mcpServers"]["notes"]
    command, env = [server["command"], *server["args"]], os.environ | server["env"]
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as client:
        print(message(messages[-1]["content"]), file=client.stdin, flush=True)
        return read(client.stdout.readline())


async def think(messages, ctx):
    noted = write(messages, ctx)
    return (await ctx.provider.complete([{"role": "user", "content": noted}], "m")).content
"""
SIMS = """\
from offbook import Trajectory, expected, scenario

CALL = expected("notes.write", args={"text": "Buy tea"})
scenario("writes twice", turns=["Buy tea", "Buy tea"], assertions=Trajectory("strict", [CALL, CALL]))
scenario("writes once", turns=["Buy tea"], conversations=2, assertions=Trajectory("strict", [CALL]))
"""
CONFIG = '[agent]\nname = "notes"\nhandler = "my_agent:{handler}"\nmcp = ".mcp.json"\n{more}[run]\nconcurrency = 1\n'


def config(handler, more=""):
    return CONFIG.format(handler=handler, more=more)


STDIO_SERVER = """\
import json, sys

for number, line in enumerate(sys.stdin, 1):
    result = {"content": [{"type": "text", "text": f"note {number}"}]}
    print(json.dumps({"jsonrpc": "2.0", "id": json.loads(line)["id"], "result": result}), flush=True)
"""


@pytest.fixture
def real():
    """A real server, which numbers the notes of all conversations."""

    def answer(call):
        result = {"resultType": "complete", "content": [{"type": "text", "text": f"note {len(real.calls)}"}]}
        call.whole(json.dumps({"jsonrpc": "2.0", "id": 1, "result": result}).encode())

    with LoopbackServer(answer) as real:
        yield real


@pytest.fixture
def project(write, tmp_path, real):
    """A project whose agent writes notes."""
    write("my_agent.py", AGENT)
    write("sim_notes.py", SIMS)
    write("offbook.toml", config("write"))
    write(".mcp.json", json.dumps({"mcpServers": {"notes": {"type": "http", "url": real.url}}}))
    return tmp_path


def lose_server(project):
    (project / ".mcp.json").write_text(json.dumps({"mcpServers": {"notes": {"command": "no-such-server"}}}))


def answers(out):
    """What the agent said in each conversation, of a run that was printed as JSON."""
    return {
        f"{each['name']} {number}": [turn["agent"] for turn in conversation["turns"]]
        for each in json.loads(out)["scenarios"]
        for number, conversation in enumerate(each["conversations"])
    }


@pytest.mark.parametrize("location", ["run.json", "runs/", "sqlite:///run.db"])
def test_conversations_are_replayed_each_with_its_own_answers(run, project, location):
    code, out, err = run("test", "--record", location, "--json")
    assert code == 0, out + err
    recorded = answers(out)
    assert sorted(note for notes in recorded.values() for note in notes) == [f"note {n}" for n in range(1, 5)]
    lose_server(project)
    for _ in range(2):
        code, out, err = run("test", "--replay", location, "--concurrency", "8", "--json")
        assert code == 0
        assert answers(out) == recorded
        assert err == ""


def test_a_replay_reports_calls_that_were_not_made(run, project):
    assert run("test", "--record", "run.json")[0] == 0
    (project / "sim_notes.py").write_text(SIMS.replace('"Buy tea", "Buy tea"]', '"Buy tea"]').replace("[CALL, ", "["))
    code, out, _ = run("test", "--replay", "run.json")
    assert code == 0
    assert "1 exchange of the recording was not used: _tools['writes twice/notes/1/notes.write'][1]" in out


def test_a_call_without_an_answer_fails_the_scenario_whatever_the_agent_does_about_it(run, project):
    assert run("test", "--record", "run.json")[0] == 0
    lose_server(project)
    (project / "sim_notes.py").write_text(SIMS.replace("tea", "milk"))
    code, out, _ = run("test", "--replay", "run.json", "--json")
    conversation = json.loads(out)["scenarios"][0]["conversations"][0]
    assert code == 3
    assert conversation["turns"][0]["agent"] == "swallowed"
    assert conversation["failures"][0]["kind"] == "mismatch"
    assert "writes twice/notes/1/notes.write" in conversation["failures"][0]["reason"]


def test_a_folder_without_the_recording_of_a_scenario_is_a_mismatch(run, project):
    (project / "runs").mkdir()
    code, out, _ = run("test", "--replay", "runs/")
    assert code == 3, out
    assert "'writes twice/notes/1/notes.write' is not in the recording" in out


@pytest.mark.parametrize("mode", ["all", "fresh"])
def test_recording_again_replaces_the_calls_of_the_same_conversations(run, project, mode):
    assert [run("test", "--record", "run.json", *mode)[0] for mode in ([], ["--record-mode", mode])] == [0, 0]
    tools = json.loads((project / "run.json").read_text())["_tools"]
    assert {name: len(calls) for name, calls in tools.items()} == {
        "writes twice/notes/1/notes.write": 2,
        "writes once/notes/1/notes.write": 1,
        "writes once/notes/2/notes.write": 1,
    }


def test_a_run_that_fails_leaves_the_recording_as_it_was(run, project):
    assert run("test", "--record", "run.json")[0] == 0
    before = (project / "run.json").read_text()
    (project / "sim_notes.py").write_text(SIMS.replace('"strict", [CALL])', '"strict", [])'))
    assert run("test", "--record", "run.json", "--record-mode", "all")[0] == 1
    assert (project / "run.json").read_text() == before


def test_a_live_run_asks_the_real_server_and_records_nothing(run, project, real):
    before = set(project.rglob("*.json"))
    assert run("test")[0] == 0
    assert len(real.calls) == 4
    assert set(project.rglob("*.json")) == before


def test_a_client_that_the_agent_starts_finds_the_servers_by_a_config(run, project, write):
    write("offbook.toml", config("run_client"))
    write("server.py", STDIO_SERVER)
    entry = {"command": sys.executable, "args": [str(project / "server.py")]}
    write(".mcp.json", json.dumps({"mcpServers": {"notes": entry}}))
    assert run("test", "--record", "run.json", "--scenario", "twice")[0] == 0
    lose_server(project)
    code, out, _ = run("test", "--replay", "run.json", "--scenario", "twice", "--json")
    assert code == 0
    assert answers(out) == {"writes twice 0": ["note 1", "note 1"]}


def test_models_and_servers_of_a_conversation_are_in_one_recording(run, project, write, monkeypatch):
    write("offbook.toml", config("think", 'provider = "openai"\n'))
    with ChatModel(lambda asked: said(f"I saw {asked}.")) as model:
        monkeypatch.setenv("OPENAI_BASE_URL", model.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
        code, out, err = run("test", "--record", "run.json", "--json")
    assert code == 0, out + err
    recorded = answers(out)
    assert recorded["writes twice 0"][0].startswith("I saw note ")
    lose_server(project)
    monkeypatch.delenv("OPENAI_API_KEY")
    code, out, _ = run("test", "--replay", "run.json", "--json")
    assert code == 0
    assert answers(out) == recorded


def test_a_config_that_cannot_be_read_is_bad_input(run, project):
    (project / ".mcp.json").unlink()
    code, _, err = run("test")
    assert code == 2
    assert ".mcp.json" in err


def test_such_an_agent_is_explored_as_a_program(run, project):
    assert run("test", "--record", "run.json")[0] == 0
    code, _, err = run("explore", "sim_notes.py", "-o", "scenario=writes twice", "--replay", "run.json")
    assert (code, "its MCP servers are not part of an explored scenario" in err) == (2, True), err
