"""A real server that asks and notifies its client, recorded by a real client over each transport, and replayed."""

import json
import socket
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.servers.foreign import skip_or_fail, wait_for

HERE = Path(__file__).parent
MCP1 = HERE.parents[2] / ".scratch/mcp1/bin/python"
COMMAND = Path(sys.executable).parent / "offbook"
TIMEOUT_S = 90
EXPECTED = {
    "result": "Hello, Ada",
    "is_error": False,
    "asked": ["Who is there?", "Greet them"],
    "progress": [1],
    "change": "changed",
    "notified": [
        f"notifications/{name}" for name in ("message", "progress", "resources/updated", "tools/list_changed")
    ],
    "has_logged_in": False,
}
pytestmark = pytest.mark.xdist_group("mcp dialogue")


@pytest.fixture(scope="module", autouse=True)
def _clients():
    skip_or_fail("" if MCP1.exists() else f"{MCP1} is missing: make mcp-clients", "NODE")


@contextmanager
def real_server(transport):
    """The URL of the real server over a transport."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [str(MCP1), str(HERE / "server.py"), transport, str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            wait_for(port)
            yield f"http://127.0.0.1:{port}/{'sse' if transport == 'sse' else 'mcp'}"
        finally:
            process.kill()


def entry(transport, servers):
    if transport == "stdio":
        return {"command": str(MCP1), "args": [str(HERE / "server.py"), "stdio"], "env": {}}
    url = servers.enter_context(real_server(transport))
    kinds = {"sse": {"type": "sse"}, "http": {"type": "http"}, "login": {"type": "http", "login": True}}
    return kinds[transport] | {"url": url}


def execute(folder, *arguments, name="Ada"):
    words = [COMMAND, "exec", *arguments, "--mcp", ".mcp.json", "--", MCP1, HERE / "drive.py", "{mcp}", name]
    command = [str(word) for word in words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A folder with the recording of a client over each transport, and with what the client got."""
    folder = tmp_path_factory.mktemp("recorded")
    with ExitStack() as servers:
        entries = {transport: entry(transport, servers) for transport in ("stdio", "http", "sse", "login")}
        (folder / ".mcp.json").write_text(json.dumps({"mcpServers": entries}))
        run = execute(folder, "--record", "run.json")
    assert run.returncode == 0, run.stdout + run.stderr
    (folder / "live.json").write_text(run.stdout)
    return folder


def test_what_passes_through_the_proxy_is_what_the_server_and_the_client_said(recorded):
    got = json.loads((recorded / "live.json").read_text())
    assert got.pop("login") == EXPECTED | {"has_logged_in": True}
    assert got == dict.fromkeys(("stdio", "http", "sse"), EXPECTED)


def test_a_replay_asks_and_notifies_as_the_server_did_and_needs_no_login(recorded):
    run = execute(recorded, "--replay", "run.json", "--strict-unused")
    assert run.returncode == 0, run.stdout + run.stderr
    assert json.loads(run.stdout) == dict.fromkeys(("stdio", "http", "sse", "login"), EXPECTED)


def test_a_client_that_answers_otherwise_is_a_miss_over_each_transport(recorded):
    run = execute(recorded, "--replay", "run.json", name="Eve")
    assert run.returncode == 3, run.stdout + run.stderr
    for got in json.loads(run.stdout).values():
        assert "the client's answer to elicitation/create was recorded with another content" in got
    assert '+    "name": "Eve"' in run.stderr


def test_nothing_of_a_login_is_recorded(recorded):
    assert "issued-" not in (recorded / "run.json").read_text()
    assert "Bearer" not in (recorded / "run.json").read_text()
