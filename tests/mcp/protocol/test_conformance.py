"""The conformance suite of MCP, which nobody here wrote, against what stands in for servers, and through the proxy."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import offbook
from tests.mcp.protocol.everything import SERVER, document
from tests.servers.foreign import skip_or_fail

SUITE = Path(__file__).parents[3] / ".scratch/mcp_conformance/node_modules"
VERSIONS = {"handshake": "2025-11-25", "modern": "2026-07-28"}
TIMEOUT_S = 120
EXPECTED_FAILURES = {
    "handshake": {},
    "modern": {
        "input-required-result-tampered-state": "requestState belongs to the recorded run, and is not compared",
    },
}
"""The scenarios that fail in each era, and why they must."""

MOCKED = {
    **dict.fromkeys(("server-initialize", "server-session-lifecycle", "ping", "tools-list", "logging-set-level"), ""),
    **dict.fromkeys(("tools-call-simple-text", "tools-call-error", "tools-call-image"), ""),
    "resources-list": "mocks have tools only",
    "tools-call-with-progress": "a mock answers at once, and reports no progress",
}
"""What is tried with mocked tools, and why a scenario fails, if it does."""

pytestmark = pytest.mark.xdist_group("mcp conformance")


@pytest.fixture(scope="module", autouse=True)
def _suite():
    skip_or_fail("" if SUITE.exists() else f"{SUITE} is missing: make mcp-clients", "NODE")


def scenarios(url, folder, *arguments):
    """Run the suite against a server, and return which scenarios have failed checks."""
    command = [SUITE / ".bin/node", SUITE / "@modelcontextprotocol/conformance/dist/index.js", "server", "--url", url]
    done = subprocess.run(
        [str(word) for word in (*command, "-o", folder / "results", *arguments)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    found = re.findall(r"^[✓✗] ([\w-]+): (\d+) passed, (\d+) failed", done.stdout, re.MULTILINE)
    if "--scenario" in arguments:
        found = [("", *counts) for counts in re.findall(r"Passed: (\d+)/\d+, (\d+) failed", done.stdout)]
    assert found, done.stdout + done.stderr
    return {name: int(failed) > 0 for name, _, failed in found}


def suite(url, folder, era):
    return scenarios(url, folder, "--suite", "all", "--spec-version", VERSIONS[era])


@pytest.mark.parametrize("era", VERSIONS)
def test_a_recording_conforms_and_so_does_what_is_recorded_through_the_proxy(tmp_path, era):
    (tmp_path / "written.json").write_text(json.dumps(document(era, times=9)))
    by_hand, recorded = str(tmp_path / "written.json"), str(tmp_path / "recorded.json")
    with offbook.serving(by_hand, mcp={SERVER: {"url": "http://127.0.0.1:1/mcp"}}) as server:
        results = {"replayed": suite(server.mcp[SERVER].url, tmp_path, era)}
    with offbook.serving(by_hand, mcp={SERVER: {"url": "http://127.0.0.1:1/mcp"}}) as server:
        real = {"url": server.mcp[SERVER].url}
        with offbook.serving(record=recorded, mcp={SERVER: real}) as proxy:
            results["through the proxy"] = suite(proxy.mcp[SERVER].url, tmp_path, era)
    with offbook.serving(recorded, mcp={SERVER: {"url": "http://127.0.0.1:1/mcp"}}) as server:
        results["replayed from the proxy"] = suite(server.mcp[SERVER].url, tmp_path, era)
    assert all(len(result) > 30 for result in results.values())
    failed = {how: {name for name, fails in result.items() if fails} for how, result in results.items()}
    assert failed == {how: set(EXPECTED_FAILURES[era]) for how in results}


TOOLS = '''
def test_simple_text() -> str:
    """Say it."""
    return "This is a simple text response for testing."


def test_error_handling() -> str:
    """Fail."""
    raise ValueError("This tool intentionally returns an error for testing")


def test_image_content() -> dict:
    """Show it."""
    return {"content": [{"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}]}
'''


def test_mocked_tools_conform_as_far_as_there_are_mocks(tmp_path):
    (tmp_path / "tools.py").write_text(TOOLS)
    command = [Path(sys.executable).parent / "offbook", "mcp", "mock", "tools.py", "--port", "0"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as mock:
        try:
            url = mock.stdout.readline().partition(": ")[0]
            failed = {name: scenarios(url, tmp_path, "--scenario", name)[""] for name in MOCKED}
        finally:
            mock.kill()
    assert failed == {name: bool(reason) for name, reason in MOCKED.items()}
