"""offbook init --sdk node."""

from pathlib import Path

from offbook.cli.commands.init import init
from tests.cli.commands.test_init import finished

SDKS = Path(__file__).parents[3] / ".scratch" / "node_sdks" / "node_modules"


def test_a_fresh_agent_passes_its_tests_at_once_without_a_key(driver, tmp_path, monkeypatch):
    init(str(tmp_path / "new"), sdk="node")
    monkeypatch.chdir(tmp_path / "new")
    Path("node_modules").symlink_to(SDKS)
    code, output = finished("npm", "test")
    assert code == 0, output
    assert "3 calls, 3 served" in output
