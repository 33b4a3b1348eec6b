"""Clients of other languages under `offbook exec --intercept`, with nothing but their environment."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli import flows

OFFBOOK = Path(sys.executable).parent / "offbook"
FOLDER = Path(__file__).parent
NODE = FOLDER.parents[2] / ".scratch" / "mcp_conformance" / "node_modules" / ".bin" / "node"
URL = "https://api.openai.com/v1/chat/completions"
BODY = json.dumps({"model": "demo", "messages": [{"role": "user", "content": "Hi"}]})


def skip_unless(is_there, reason, *, required_by):
    if not is_there and os.environ.get(required_by) == "1":
        pytest.fail(reason)
    if not is_there:
        pytest.skip(reason)


@pytest.fixture
def execute(tmp_path):
    """Run a client with `offbook exec --intercept` on a recording: gives the code and what it printed."""
    (tmp_path / "run.json").write_text(flows.recording({"first": {"content": "Hello!"}}))

    def execute(*command):
        words = [OFFBOOK, "exec", "--intercept", "--block-network", "--replay", tmp_path / "run.json", "--", *command]
        done = subprocess.run([*words, URL, BODY], capture_output=True, text=True, timeout=110, check=False)
        return done.returncode, done.stdout

    return execute


@pytest.mark.skipif(
    sys.platform != "linux", reason="Java sends no credentials: only Linux shows whose connection it is"
)
def test_java_is_answered(execute):
    skip_unless(shutil.which("java"), "java is not installed", required_by="OFFBOOK_REQUIRE_JAVA")
    code, out = execute("java", FOLDER / "Ask.java")
    assert code == 0
    assert "Hello!" in out


def test_fetch_of_node_22_is_answered(execute):
    reason = "a newer Node is not installed: run `make mcp-clients`"
    skip_unless(NODE.exists(), reason, required_by="OFFBOOK_REQUIRE_NODE")
    code, out = execute(NODE, FOLDER / "ask.mjs")
    assert code == 0
    assert "Hello!" in out
