"""MCP servers of programs: recorded and replayed by `exec --mcp`, and served alone by `mcp serve` and `mcp record`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.programs import PYTHON

COMMAND = str(Path(sys.executable).parent / "offbook")
TIMEOUT_S = 30

SERVER = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    text = f"{message['method']} {message['params'].get('arguments')}"
    result = {"content": [{"type": "text", "text": text}], "protocolVersion": "2025-11-25", "capabilities": {}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
open("ran", "a").write("x")
sys.exit(7)
"""

AGENT = """
import json, os, subprocess, sys
config = json.load(open(sys.argv[1] if len(sys.argv) > 1 else os.environ["OFFBOOK_MCP_CONFIG"]))
entry = config["mcpServers"]["notes"]
server = subprocess.Popen([entry["command"], *entry["args"]], env={**os.environ, **entry["env"]},
    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
def ask(id, method, params):
    print(json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}), file=server.stdin, flush=True)
    line = server.stdout.readline()
    return json.loads(line) if line else {"error": {"message": f"the server exited with {server.wait()}"}}
ask(0, "initialize", {"protocolVersion": "2025-11-25", "capabilities": {}})
for word in WORDS:
    answer = ask(word, "tools/call", {"name": "say", "arguments": {"word": word}})
    print(answer["result"]["content"][0]["text"] if "result" in answer else answer["error"]["message"])
server.stdin.close()
server.wait()
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "server.py").write_text(SERVER)
    entry = {"command": sys.executable, "args": ["server.py"], "env": {"TOKEN": "sk-proj-" + "a1B2" * 10}}
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"notes": entry}}))
    return tmp_path


def agent(*words):
    return [*PYTHON, AGENT.replace("WORDS", repr(words))]


@pytest.fixture
def execute(project, run_programs):
    """Run `offbook exec …` in the project."""
    return lambda *words: run_programs("exec", *words)


def test_a_program_is_recorded_with_its_servers_and_replayed_without_them(execute):
    record = execute("--record", "run.json", "--mcp", ".mcp.json", "--", *agent("a", "b"), "{mcp}")
    assert record[:2] == (0, "tools/call {'word': 'a'}\ntools/call {'word': 'b'}\n"), record
    assert "2 calls, 2 recorded" in record[2]
    assert "a1B2" not in Path("run.json").read_text()
    assert Path("ran").read_text() == "x"
    replay = execute("--replay", "run.json", "--mcp", ".mcp.json", "--", *agent("a", "b"))
    assert replay[:2] == record[:2]
    assert Path("ran").read_text() == "x"
    fault = ["--fault", "tool=notes.say call=2: tool_lost"]
    lost = execute("--replay", "run.json", "--mcp", ".mcp.json", *fault, "--", *agent("a", "b"))
    assert lost[:2] == (0, "tools/call {'word': 'a'}\nthe server exited with 1\n")
    assert "1 fault fired: tool=notes.say call=2: tool_lost" in lost[2]


def test_a_call_that_is_not_recorded_ends_with_exit_code_3(execute):
    recording = {"_version": 2, "_tools": {"notes.say": [{"arguments": {"word": "a"}, "result": "A"}]}}
    Path("run.json").write_text(json.dumps(recording))
    code, out, err = execute("--replay", "run.json", "--mcp", ".mcp.json", "--", *agent("b"))
    assert code == 3
    assert "was not recorded with these arguments" in out
    assert "tools/call notes.say has no answer: run.json: tool 'notes.say'" in err
    assert "offbook exec --mcp .mcp.json --record run.json --record-mode fresh -- " in err
    assert "1 exchange of run.json was not used" in err
    assert "_tools.notes.say[0]" in err


@pytest.mark.parametrize("arguments", [("--replay", "run.json"), ("--record", "new.json")])
def test_a_program_that_reaches_its_real_servers_instead_of_ours_is_refused(execute, arguments):
    recording = {"_version": 2, "_tools": {"notes.say": [{"arguments": {"word": "a"}, "result": "A"}]}}
    Path("run.json").write_text(json.dumps(recording))
    real = [*arguments, "--mcp", ".mcp.json", "--", *PYTHON, "import json, os; print(os.environ['OFFBOOK_URL'])"]
    code, _, err = execute("-o", "allow_no_calls=true", *real)
    assert code == 0, err
    code, _, err = execute(*arguments, "--mcp", ".mcp.json", "--", *agent("a"), ".mcp.json")
    assert Path("ran").read_text() == "x"
    assert code == 3
    assert "the command reached none of the MCP servers of .mcp.json here: their tools" in err
    assert "hint: give the program {mcp} in place of its own config, or let it read $OFFBOOK_MCP_CONFIG" in err


def test_a_server_that_cannot_be_started_is_named(execute):
    entry = {"command": "no-such-server", "args": [], "env": {}}
    Path(".mcp.json").write_text(json.dumps({"mcpServers": {"notes": entry}}))
    _, _, err = execute("--record", "run.json", "--mcp", ".mcp.json", "--", *agent("a"), "{mcp}")
    assert "offbook: notes: no-such-server: the server cannot be started: No such file or directory" in err


def test_a_server_alone_is_recorded_and_served_over_stdio(project):
    asked = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "say", "arguments": {"word": "a"}}},
    ]
    data = "".join(json.dumps(message) + "\n" for message in asked)

    def talk(*arguments):
        command = [COMMAND, "mcp", *arguments]
        return subprocess.run(command, input=data, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)

    recorded = talk("record", "--output", "notes.json", "--", sys.executable, "server.py")
    assert recorded.returncode == 7, recorded.stderr
    served = talk("serve", "notes.json", "--stdio")
    assert served.returncode == 0, served.stderr
    answers = [json.loads(run.stdout.splitlines()[1]) for run in (recorded, served)]
    assert answers[0] == answers[1] | {"result": answers[0]["result"]}
    assert answers[1]["result"]["content"] == answers[0]["result"]["content"]
    assert not Path("notes.json.journal").exists()


def test_a_server_that_never_ends_is_stopped_when_its_input_has_ended(project):
    command = [COMMAND, "mcp", "record", "--output", "x.json", "--", *PYTHON, "import time; time.sleep(60)"]
    process = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert process.returncode == 128 + 15
    assert process.stderr == ""
    assert not Path("x.json").exists()


@pytest.mark.parametrize(
    ("server", "code", "told"),
    [
        ("import sys; sys.exit(3)", 3, "1 request had no answer: the server exited with 3 before it answered"),
        ("import sys; sys.stdin.read()", 0, "1 request had no answer: the server exited with 0 before it answered"),
    ],
)
def test_a_server_that_dies_or_never_answers_is_named_and_leaves_no_recording(project, server, code, told):
    asked = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}}
    done = subprocess.run(
        [COMMAND, "mcp", "record", "--output", "dead.json", "--", sys.executable, "-c", server],
        input=json.dumps(asked) + "\n",
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == code
    assert done.stdout == ""
    assert told in done.stderr
    assert not (project / "dead.json").exists()


def test_tools_of_a_file_are_served_over_stdio_and_what_they_print_is_no_part_of_it(project):
    Path("tools.py").write_text('def say(word: str) -> str:\n    print("noise")\n    return word * 2\n')
    asked = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "say", "arguments": {"word": "a"}}}
    command = [COMMAND, "mcp", "mock", "tools.py", "--stdio"]
    served = subprocess.run(
        command, input=json.dumps(asked), capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert served.returncode == 0
    assert served.stderr == "noise\n"
    assert json.loads(served.stdout)["result"]["content"] == [{"type": "text", "text": "aa"}]


def test_the_config_says_what_mocked_tools_do(project):
    Path("tools.py").write_text(
        "def find(word: str) -> str:\n    return word\n\ndef pay() -> str:\n    return 'paid'\n"
    )
    Path("offbook.toml").write_text("[tools.find]\nread_only = true\n[tools.pay]\neffect = true\nidempotent = true\n")
    asked = json.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/list"})
    command = [COMMAND, "mcp", "mock", "tools.py", "--stdio"]
    served = subprocess.run(command, input=asked, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    listed = json.loads(served.stdout)["result"]["tools"]
    assert {each["name"]: each["annotations"] for each in listed} == {
        "find": {"readOnlyHint": True},
        "pay": {"readOnlyHint": False, "idempotentHint": True},
    }


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["serve", "x.json"], "--stdio or --port is required"),
        (["serve", "run.json", "--stdio"], "the recording has no MCP server"),
        (["serve", "both.json", "--stdio"], "the recording has 2 servers"),
        (["serve", "both.json", "--stdio", "--name", "c"], "no server 'c'"),
        (["verify", "both.json"], "a command or --url is required"),
        (["verify", "both.json", "--url", "http://x"], "the recording has 2 servers"),
        (["verify", "both.json", "--name", "a", "--url", "x"], "expected the URL of an MCP server"),
        (["verify", "both.json", "--name", "a", "--url", "http://x", "--header", "x"], "expected NAME=VALUE"),
        (["verify", "both.json", "--name", "a", "--url", "http://x", "--ignore", "a..b"], "invalid path"),
        (["verify", "both.json", "--name", "a", "--", "no-such-server"], "the server cannot be started"),
        (["verify", "both.json", "--name", "a", "--", "false"], "the server exited with 1 before it answered"),
        (["check", "run.json"], "run.json: the recording has no MCP server"),
        (["check", "both.json", "--pattern", "("], "invalid pattern"),
        (["diff", "both.json", "run.json"], "run.json: the recording has no MCP server"),
        (["mock", "tools.py"], "--stdio or --port is required"),
        (["mock", "tools.py", "--stdio"], "no such file"),
        (["mock", "run.yaml", "--stdio"], "expected a .py or .json file"),
        (["mock", "broken.py", "--stdio"], "cannot import it: ZeroDivisionError"),
        (["record", "--output", "x.json"], "a command or --url is required"),
        (["record", "--output", "x.json", "--url", "http://x"], "--url and --port belong together"),
        (["record", "--output", "x.json", "--url", "nonsense", "--port", "0"], "expected the URL of an MCP server"),
    ],
)
def test_bad_input_is_explained(run, tmp_path, monkeypatch, arguments, reason):
    monkeypatch.chdir(tmp_path)
    listed = {"tools/list": [{"arguments": {}, "result": {"tools": []}}]}
    Path("run.json").write_text('{"_version": 2}')
    Path("broken.py").write_text("1 / 0")
    Path("both.json").write_text(json.dumps({"_version": 2, "_mcp": {"a": listed, "b": listed}}))
    code, _, err = run("mcp", *arguments)
    assert code == 2
    assert reason in err


def surface(path, *tools):
    Path(path).write_text(json.dumps({"_version": 2, "_mcp": {"a": {"tools/list": [{"result": {"tools": tools}}]}}}))


def test_diff_exits_with_1_from_the_class_on_that_fail_on_names(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tool = {"name": "b", "inputSchema": {"type": "object"}}
    surface("old.json", tool)
    surface("described.json", tool | {"description": "new"})
    surface("more.json", tool, tool | {"name": "c"})
    codes = {
        (new, level): run("mcp", "diff", "old.json", f"{new}.json", "--fail-on", level)[0]
        for new in ("old", "described", "more")
        for level in ("breaking", "dangerous", "any")
    }
    failing = [("described", "dangerous"), ("described", "any"), ("more", "any")]
    assert codes == {key: int(key in failing) for key in codes}
    code, out, _ = run("mcp", "diff", "old.json", "more.json", "--json")
    assert code == 0
    assert json.loads(out) == {
        "changes": [{"place": "a: tool c", "level": "harmless", "reason": "it is new"}],
        "not_compared": {},
    }


def test_check_exits_with_1_if_there_is_a_problem_and_names_its_file(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    surface("good.json", {"name": "b", "inputSchema": {"type": "object"}})
    surface("bad.json", {"name": "b"})
    assert run("mcp", "check", "good.json")[:2] == (0, "1 recording checked: no problems\n")
    code, out, _ = run("mcp", "check", "good.json", "bad.json", "--json")
    finding = {"file": "bad.json", "place": "a: tools.b", "kind": "schema", "problem": "it has no inputSchema"}
    assert code == 1
    assert json.loads(out) == {"files": 2, "findings": [finding]}
