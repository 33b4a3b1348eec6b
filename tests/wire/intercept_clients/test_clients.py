"""Clients of other languages under `offbook exec --intercept`, with nothing but their environment."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli import flows
from tests.servers.foreign import skip_or_fail

OFFBOOK = Path(sys.executable).parent / "offbook"
FOLDER = Path(__file__).parent
NODE = FOLDER.parents[2] / ".scratch" / "mcp_conformance" / "node_modules" / ".bin" / "node"
URL = "https://api.openai.com/v1/chat/completions"
BODY = json.dumps({"model": "demo", "messages": [{"role": "user", "content": "Hi"}]})


@pytest.fixture
def execute(tmp_path):
    """Run a client with `offbook exec --intercept` on a recording: gives the code and what it printed."""
    (tmp_path / "run.json").write_text(flows.recording({"first": {"content": "Hello!"}}))

    def execute(*command):
        words = [
            OFFBOOK,
            "exec",
            "--intercept",
            "-o",
            "block_network=true",
            "--replay",
            tmp_path / "run.json",
            "--",
            *command,
        ]
        done = subprocess.run([*words, URL, BODY], capture_output=True, text=True, timeout=110, check=False)
        return done.returncode, done.stdout

    return execute


@pytest.mark.skipif(
    sys.platform != "linux", reason="Java sends no credentials: only Linux shows whose connection it is"
)
def test_java_is_answered(execute):
    skip_or_fail("" if shutil.which("java") else "java is not installed", "JAVA")
    code, out = execute("java", FOLDER / "Ask.java")
    assert code == 0
    assert "Hello!" in out


def test_fetch_of_node_22_is_answered(execute):
    skip_or_fail("" if NODE.exists() else "a newer Node is not installed: run `make mcp-clients`", "NODE")
    code, out = execute(NODE, FOLDER / "ask.mjs")
    assert code == 0
    assert "Hello!" in out
