"""Folders of a process that was killed are removed at the next start; those in use, and of others, stay."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from offbook import private_folder
from offbook.private_folder import PREFIX, PrivateFolder, remove_dead_folders

HOLDS = """
import os, signal
from offbook.private_folder import PrivateFolder
folder = PrivateFolder()
open(os.path.join(folder.name, "mcp.json"), "w").write("a key")
print(folder.name, flush=True)
signal.pause()
"""

DIES = """
import os, signal, sys
from pathlib import Path
from offbook import private_folder
from offbook.private_folder import PrivateFolder

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def dying(function):
    return lambda *given, **more: (function(*given, **more), die())

at = sys.argv[1]
private_folder.remove_dead_folders()
if at == "mkdir":
    os.mkdir = dying(os.mkdir)
if at == "flock":
    private_folder.lock_file = dying(private_folder.lock_file)
folder = PrivateFolder()
for name in ("mcp.json", "z/socket", "a/key"):
    path = Path(folder.name, name)
    path.parent.mkdir(exist_ok=True)
    path.write_text("a key")
deadly = {"unlink": "os.remove", "rmdir": "os.rmdir", "open": "open"}.get(at)
sys.addaudithook(lambda event, given: die() if event == deadly else None)
folder.cleanup()
die()
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


@pytest.mark.parametrize("killed_at", ["mkdir", "flock", "unlink", "rmdir", "open"])
def test_a_kill_at_any_instant_leaves_nothing_that_the_next_start_does_not_remove(killed_at, tmp_path, monkeypatch):
    monkeypatch.setattr(private_folder.tempfile, "tempdir", str(tmp_path))
    killed = subprocess.run(
        [sys.executable, "-c", DIES, killed_at], env=os.environ | {"TMPDIR": str(tmp_path)}, check=False
    )
    assert killed.returncode == -signal.SIGKILL
    assert list(tmp_path.iterdir())
    remove_dead_folders.cache_clear()
    remove_dead_folders()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_taken_for_a_dead_one_before_it_is_locked_is_made_again(tmp_path, monkeypatch):
    monkeypatch.setattr(private_folder.tempfile, "tempdir", str(tmp_path))
    make, taken = os.mkdir, []

    def make_and_lose(path, mode=0o777):
        make(path, mode)
        if not taken and PREFIX in str(path):
            taken.append(path)
            Path(path).rmdir()

    monkeypatch.setattr(os, "mkdir", make_and_lose)
    with PrivateFolder() as own:
        assert Path(own).is_dir()
        assert own != taken[0]


def test_what_is_none_of_ours_stays(tmp_path, monkeypatch):
    monkeypatch.setattr(private_folder.tempfile, "tempdir", str(tmp_path))
    others = {"offbook-new", "other", f"{PREFIX}of-a-user", f"{PREFIX}readable"}
    for name in others:
        (tmp_path / name).mkdir()
    (tmp_path / f"{PREFIX}linkedto").symlink_to(tmp_path / "other")
    remove_dead_folders.cache_clear()
    remove_dead_folders()
    assert {each.name for each in tmp_path.iterdir()} == others | {f"{PREFIX}linkedto"}


def test_no_temporary_folder_of_ours_outlives_a_kill():
    sources = Path(private_folder.__file__).parent
    makers = [
        str(path.relative_to(sources))
        for path in sources.rglob("*.py")
        if "TemporaryDirectory(" in (text := path.read_text()) or "mkdtemp(" in text or "mkstemp(" in text
    ]
    assert makers == []
