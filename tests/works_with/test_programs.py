"""Programs that CI keeps: recorded and replayed, on another day, in another folder, as another user, and broken."""

import subprocess
import sys

import pytest

from tests.works_with.catalog import BY_NAME, KEPT, ROOT

CAN_SEPARATE = subprocess.run(["unshare", "-rn", "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", KEPT)
def test_a_program_replays_unmodified(name: str) -> None:
    if not BY_NAME[name].executable.exists() or not CAN_SEPARATE:
        pytest.skip(f"{name} is not installed, or there are no network namespaces: make conformance")
    words = [sys.executable, "-m", "tests.works_with.trial", "--quick", name]
    ended = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr[-2000:]
