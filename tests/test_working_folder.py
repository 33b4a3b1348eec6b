"""A working folder: a copy of a template for each run, and what a run has changed in it."""

import os
import subprocess
from pathlib import Path

import pytest

from offbook.errors import InputError
from offbook.working_folder import WorkingFolder


@pytest.fixture
def template(tmp_path):
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    (folder / "README.md").write_text("Read me.")
    (folder / "src" / "run.sh").write_text("true")
    (folder / "src" / "run.sh").chmod(0o755)
    (folder / "inside").symlink_to(folder / "src")
    return folder


@pytest.fixture
def working(template, tmp_path):
    return WorkingFolder(str(template), tmp_path / "private")


def test_a_copy_has_the_name_the_modes_and_the_times_of_its_template(template, working, tmp_path):
    copy = working.copy_to(tmp_path / "run")
    assert copy == tmp_path / "run" / "project"
    before, after = ((folder / "src" / "run.sh").stat() for folder in (template, copy))
    assert (before.st_mode, before.st_mtime_ns) == (after.st_mode, after.st_mtime_ns)
    assert working.changes(copy) == {}


def test_what_a_run_has_created_changed_and_deleted_is_listed(working, tmp_path):
    copy = working.copy_to(tmp_path / "run")
    (copy / "new").mkdir()
    (copy / "new" / "file").write_bytes(b"\xff")
    (copy / "README.md").write_text("Read ME.")
    (copy / "src" / "run.sh").unlink()
    (copy / "link").symlink_to("README.md")
    (copy / ".git").mkdir()
    (copy / ".git" / "index").touch()
    expected = {"README.md": "changed", "link": "created", "new/file": "created", "src/run.sh": "deleted"}
    assert working.changes(copy) == expected


def test_equal_times_and_sizes_hide_no_change(working, tmp_path):
    copy = working.copy_to(tmp_path / "run")
    times = (copy / "README.md").stat()
    (copy / "README.md").write_text("read me!")
    os.utime(copy / "README.md", ns=(times.st_atime_ns, times.st_mtime_ns))
    assert working.changes(copy) == {"README.md": "changed"}


def test_links_into_the_template_lead_into_the_copy(working, template, tmp_path):
    copy = working.copy_to(tmp_path / "run")
    (copy / "inside" / "new").write_text("x")
    assert (copy / "src" / "new").exists()
    assert not (template / "src" / "new").exists()
    assert working.changes(copy) == {"src/new": "created"}


def test_the_template_may_change_between_runs(working, template, tmp_path):
    (template / "README.md").write_text("Another.")
    assert (working.copy_to(tmp_path / "run") / "README.md").read_text() == "Read me."


def test_pipes_and_sockets_are_left_out(template, tmp_path):
    os.mkfifo(template / "pipe")
    assert not (WorkingFolder(str(template), tmp_path / "p").copy_to(tmp_path / "run") / "pipe").exists()


def test_a_folder_that_is_not_there_is_bad_input(tmp_path):
    with pytest.raises(InputError, match=r"--workdir .*gone: there is no such folder"):
        WorkingFolder(str(tmp_path / "gone"), tmp_path)


def test_files_of_a_command_that_only_this_folder_has_are_those_of_here(working, template, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("agent.py").touch()
    Path("README.md").touch()
    words = ["python", "agent.py", "README.md", "-x", "long " * 2000, str(template)]
    assert working.words(words) == ["python", str(tmp_path / "agent.py"), *words[2:]]
    assert working.words(["./agent.py"]) == [str(tmp_path / "agent.py")]


def git(folder, *words):
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    run = subprocess.run(
        ["git", *identity, "-C", str(folder), *words], check=True, capture_output=True, text=True, env=environment
    )
    return run.stdout.strip()


def test_a_linked_worktree_becomes_a_repository_of_its_own(template, tmp_path):
    git(template, "init", "--quiet", "--initial-branch=main")
    git(template, "add", "README.md")
    git(template, "commit", "--quiet", "--message=first")
    linked = tmp_path / "linked"
    git(template, "worktree", "add", "--quiet", str(linked))
    (linked / "uncommitted").write_text("x")
    copy = WorkingFolder(str(linked), tmp_path / "private").copy_to(tmp_path / "run")
    assert git(copy, "status", "--porcelain") == "?? uncommitted"
    git(copy, "commit", "--quiet", "--allow-empty", "--message=second")
    assert (git(copy, "log", "--format=%s"), git(linked, "log", "--format=%s")) == ("second\nfirst", "first")
    assert git(copy, "remote") == ""
