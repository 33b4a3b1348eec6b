"""The agent with an MCP server passes its tests offline, from the recordings beside it."""

import shutil
from pathlib import Path

import httpx2  # noqa: F401 - loaded here, or the inner run would load it anew

import offbook.server  # noqa: F401

EXAMPLE = Path(__file__).parents[2] / "examples/mcp"


def test_the_tests_of_the_agent_pass_without_its_server(pytester):
    shutil.copytree(EXAMPLE, pytester.path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    (pytester.path / "issues_server.py").unlink()
    result = pytester.runpytest_inprocess("-q", "-p", "no:asyncio")
    result.assert_outcomes(passed=2)
    assert "3 calls served from recordings, 0 recorded live, 0 missed" in result.stdout.str()
