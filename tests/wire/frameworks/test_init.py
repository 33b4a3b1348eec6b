"""offbook init for frameworks."""

import sys

import pytest

from offbook.cli.commands.init import init
from tests.cli.commands.test_init import finished


@pytest.mark.parametrize("kind", ["langgraph", "pydantic-ai"])
def test_a_fresh_agent_passes_its_tests_at_once_without_a_key(tmp_path, monkeypatch, kind):
    init(str(tmp_path / "new"), sdk=kind)
    monkeypatch.chdir(tmp_path / "new")
    code, output = finished(sys.executable, "-m", "pytest", "-q")
    assert code == 0, output
    assert "0 recorded live, 0 missed" in output
