"""Folders of a process that was killed are removed at the next start; those in use, and of others, stay."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from offbook import private_folder
from offbook.private_folder import LOCK, PrivateFolder, remove_dead_folders

HOLDS = """
import os, signal
from offbook.private_folder import PrivateFolder
folder = PrivateFolder()
open(os.path.join(folder.name, "mcp.json"), "w").write("a key")
print(folder.name, flush=True)
signal.pause()
"""


@pytest.fixture
def holder(tmp_path, monkeypatch):
    """Another process with a private folder, and the path of that."""
    monkeypatch.setattr(private_folder.tempfile, "tempdir", str(tmp_path))
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", HOLDS], stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        yield process, Path(process.stdout.readline().strip())
        process.kill()


def test_the_folder_of_a_process_that_was_killed_is_removed_at_the_next_start(holder):
    process, folder = holder
    remove_dead_folders.cache_clear()
    remove_dead_folders()
    assert (folder / "mcp.json").exists()
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert (folder / "mcp.json").exists()
    remove_dead_folders.cache_clear()
    with PrivateFolder() as own:
        assert not folder.exists()
        assert Path(own).stat().st_mode & 0o777 == 0o700
    assert not Path(own).exists()


def test_what_is_none_of_ours_stays(tmp_path, monkeypatch):
    monkeypatch.setattr(private_folder.tempfile, "tempdir", str(tmp_path))
    (tmp_path / "offbook-new").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / LOCK).touch()
    (tmp_path / "offbook-link").symlink_to(tmp_path / "other")
    remove_dead_folders.cache_clear()
    remove_dead_folders()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["offbook-link", "offbook-new", "other"]
    assert (tmp_path / "other" / LOCK).exists()


def test_no_temporary_folder_of_ours_outlives_a_kill():
    sources = Path(private_folder.__file__).parent
    makers = [
        str(path.relative_to(sources))
        for path in sources.rglob("*.py")
        if "TemporaryDirectory(" in (text := path.read_text()) or "mkdtemp(" in text or "mkstemp(" in text
    ]
    assert makers == []
