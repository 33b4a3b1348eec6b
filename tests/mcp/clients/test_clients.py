"""Real clients, unmodified: recorded against a real server over both transports, and replayed with the server gone."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from offbook.faults import TOOL_FAULT_TYPES
from tests.servers.foreign import skip_or_fail, wait_for

ROOT = Path(__file__).parents[3]
HERE = Path(__file__).parent
SCRATCH = ROOT / ".scratch"
MCP2, MCP1, NODE = SCRATCH / "mcp2/bin/python", SCRATCH / "mcp1/bin/python", SCRATCH / "node_mcp"
COMMAND = Path(sys.executable).parent / "offbook"
TIMEOUT_S = 90
CLIENTS = {
    "mcp 2, auto": [MCP2, HERE / "drive_mcp2.py", "{mcp}", "auto"],
    "mcp 2, legacy": [MCP2, HERE / "drive_mcp2.py", "{mcp}", "legacy"],
    "mcp 2, pinned": [MCP2, HERE / "drive_mcp2.py", "{mcp}", "2026-07-28"],
    "mcp 1": [MCP1, HERE / "drive_mcp1.py", "{mcp}"],
    "fastmcp": [MCP2, HERE / "drive_fastmcp.py", "{mcp}"],
    "typescript, auto": ["node", HERE / "drive.mjs", NODE, "{mcp}", "auto"],
    "typescript, legacy": ["node", HERE / "drive.mjs", NODE, "{mcp}", "legacy"],
}
EXPECTED = {
    "tools": ["add", "count", "fail"],
    "add": {"result": 3},
    "count": "counted",
    "progress": [0, 1],
    "fail": True,
    "resource": "first",
    "prompt": "Hi Bo",
}
pytestmark = pytest.mark.xdist_group("mcp clients")


@pytest.fixture(scope="module", autouse=True)
def _clients():
    missing = [str(path) for path in (MCP2, MCP1, NODE / "node_modules") if not path.exists()]
    skip_or_fail(f"{missing[0]} is missing: make mcp-clients" if missing else "", "NODE")


@pytest.fixture(scope="module")
def web():
    """The port of a real server over HTTP."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with subprocess.Popen([MCP2, HERE / "server.py", str(port)], stderr=subprocess.DEVNULL) as process:
        try:
            wait_for(port)
            yield port
        finally:
            process.kill()


def execute(folder, *arguments):
    command = [str(word) for word in (COMMAND, "exec", *arguments)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


@pytest.fixture(scope="module", params=["mcp 2, auto", "mcp 2, legacy", "typescript, legacy"])
def recorded(request, web, tmp_path_factory):
    """A folder with the recording of a client, over stdio and over HTTP, and with its config."""
    folder = tmp_path_factory.mktemp("recorded")
    entries = {
        "notes": {"command": str(MCP2), "args": [str(HERE / "server.py")]},
        "web": {"type": "http", "url": f"http://127.0.0.1:{web}/mcp", "headers": {"Authorization": "Bearer a-secret"}},
    }
    (folder / ".mcp.json").write_text(json.dumps({"mcpServers": entries}))
    run = execute(folder, "--record", "run.json", "--mcp", ".mcp.json", "--", *CLIENTS[request.param])
    check(run, request.param)
    return folder


def check(run, client, *, over_stdio="notes"):
    """Check what a client got. That for TypeScript drops progress that arrives together with its answer, over stdio."""
    assert run.returncode == 0, run.stdout + run.stderr
    got = json.loads(run.stdout)
    if client.startswith("typescript"):
        assert got[over_stdio].pop("progress") in ([], [0], [0, 1])
        got[over_stdio]["progress"] = EXPECTED["progress"]
    assert got == {"notes": EXPECTED, "web": EXPECTED}


@pytest.mark.parametrize("client", CLIENTS)
def test_a_recording_answers_every_client_over_both_transports(recorded, client):
    run = execute(recorded, "--replay", "run.json", "--mcp", ".mcp.json", "--strict-unused", "--", *CLIENTS[client])
    check(run, client)
    assert "a-secret" not in (recorded / "run.json").read_text()


@pytest.mark.parametrize("client", ["mcp 2, legacy", "mcp 2, pinned", "mcp 1", "typescript, auto"])
def test_a_recording_of_either_era_answers_both_over_the_other_transport(recorded, client):
    """What was recorded over stdio is served over HTTP, and the other way around."""
    swapped = {"notes": {"type": "http", "url": "http://127.0.0.1:1/mcp"}, "web": {"command": "none"}}
    (recorded / "swapped.json").write_text(json.dumps({"mcpServers": swapped}))
    run = execute(recorded, "--replay", "run.json", "--mcp", "swapped.json", "--strict-unused", "--", *CLIENTS[client])
    check(run, client, over_stdio="web")


@pytest.mark.parametrize("sdk", [MCP1, MCP2], ids=["mcp 1", "mcp 2"])
def test_clients_of_this_process_are_recorded_and_replayed_by_streams_in_virtual_time(sdk, tmp_path):
    packages = next((sdk.parents[1] / "lib").glob("python*/site-packages"))
    done = subprocess.run(
        [sys.executable, HERE / "drive_streams.py", MCP2, tmp_path],
        env=os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{packages}"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    recorded, replayed, late = json.loads(done.stdout)
    assert recorded == replayed == {"tools": EXPECTED["tools"], "add": "3"}
    assert late == "late"


ENTRIES = {"stdio": {"command": "x"}, "HTTP": {"type": "http", "url": "http://127.0.0.1:1/mcp"}}
SILENT = ("tool_timeout", "oversized_result")
"""Faults that clients meet only with their own timeout, or with their memory."""


def documented(transport):
    """What the page says that the client of mcp 2 does about each fault over a transport."""
    page = (ROOT / "docs" / "mcp" / "faults.md").read_text()
    table = page.partition("| fault | over stdio | over HTTP |\n")[2].partition("\n\n")[0].splitlines()[1:]
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in table]
    return {row[0].strip("`"): row[1 + list(ENTRIES).index(transport)] for row in rows}


@pytest.mark.parametrize("transport", ENTRIES)
def test_the_page_says_what_a_client_does_about_each_fault(tmp_path, transport):
    faults = sorted(name for name, kind in TOOL_FAULT_TYPES.items() if name not in SILENT and "lies" not in kind.traits)
    calls = {f"s.{fault}": [{"arguments": {}, "result": "recorded"}] * 3 for fault in faults}
    (tmp_path / "run.json").write_text(json.dumps({"_version": 2, "_tools": calls}))
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"s": ENTRIES[transport]}}))
    lines = [word for fault in faults for word in ("--fault", f"tool=s.{fault} call=1: {fault}")]
    driver = [MCP2, HERE / "drive_faults.py", "{mcp}", *faults]
    run = execute(tmp_path, "--replay", "run.json", "--mcp", ".mcp.json", *lines, "--", *driver)
    assert json.loads(run.stdout) == documented(transport), run.stderr


def test_a_coding_agent_reads_and_explores_runs_by_our_own_server(tmp_path):
    subprocess.run([COMMAND, "init", "refunds", "--sdk", "openai"], cwd=tmp_path, check=True, capture_output=True)
    ran = subprocess.run(
        [MCP1, HERE / "drive_own_server.py", COMMAND, tmp_path / "refunds", sys.executable],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    seen = json.loads(ran.stdout)
    assert seen["tools"] == ["list_runs", "show_recording", "list_findings", "explain_finding", "explore"]
    assert seen["run"] == "recordings/agent.json"
    assert seen["asked"] == ["refund(42)"]
    assert seen["findings"] is True
    assert "--fault" in seen["reproduce"]
