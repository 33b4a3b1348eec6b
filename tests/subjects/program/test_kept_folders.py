"""Folders that the runs of a program keep: each run finds them as they were, and so does their owner at the end."""

import fcntl
import os
import signal
from pathlib import Path

import pytest

from offbook.errors import InputError
from offbook.explore.settings import ExploreSettings
from offbook.faults import FaultPlan
from offbook.subjects.program.kept_folders import KeptFolders
from offbook.subjects.program.program import ProgramSubject
from tests.explore.runs import plan_of, write_recording
from tests.subjects.programs import python

COUNTS = """
state = sys.argv[1] + "/lives"
lives = open(state).read() + "x"
open(state, "w").write(lives)
ask(said("Hi"))
print(lives)
"""


@pytest.fixture
def state(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "state"
    (folder / "deep").mkdir(parents=True)
    (folder / "lives").write_text("-")
    (folder / "deep" / "link").symlink_to("../lives")
    return folder


def content(folder):
    return {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}


def beside(folder):
    return sorted(path.name for path in folder.parent.iterdir() if path.name.startswith(folder.name))


def program(tmp_path, argument):
    path = write_recording(tmp_path / "run.json", {"any": [{"content": "Hello!"}]})
    settings = ExploreSettings(keep=("state",), crashes=True, deadline_s=30.0)
    return ProgramSubject([*python(COUNTS), argument], replay=path, settings=settings)


def test_a_recording_that_cannot_be_read_leaves_no_backup(tmp_path, state):
    (tmp_path / "run.json").write_text('{"_version": 2, "any": {"content": 5}}')
    with pytest.raises(InputError):
        ProgramSubject(python(COUNTS), replay=tmp_path / "run.json", settings=ExploreSettings(keep=("state",)))
    assert beside(state) == ["state"]


@pytest.mark.parametrize("argument", ["state", "{keep}"], ids=["shared", "copied"])
def test_every_run_finds_the_folder_as_it_was_and_its_second_life_as_the_first_left_it(tmp_path, state, argument):
    with program(tmp_path, argument) as subject:
        clean = subject.run(FaultPlan())
        crashed = subject.run(plan_of("call=1: crash before"))
        again = subject.run(FaultPlan())
    assert [run.result["stdout"] for run in (clean, crashed, again)] == ["-x\n", "-xx\n", "-x\n"]
    assert content(state) == {"lives": "-"}
    assert (state / "deep" / "link").readlink() == Path("../lives")
    assert beside(state) == ["state"]


def test_a_folder_that_was_removed_is_there_again(tmp_path, state):
    kept = KeptFolders(["state"], [])
    with kept.run(["run"], tmp_path) as command:
        (state / "lives").unlink()
        (state / "deep" / "link").unlink()
        (state / "deep").rmdir()
        state.rmdir()
    assert command == ["run"]
    kept.close()
    kept.close()
    assert content(state) == {"lives": "-"}


def test_what_was_in_the_folder_survives_the_death_of_an_exploration(tmp_path, state):
    pid = os.fork()
    if pid == 0:
        kept = KeptFolders(["state"], [])
        with kept.run([], tmp_path):
            (state / "lives").write_text("broken")
            os.kill(os.getpid(), signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    assert content(state) == {"lives": "broken"}
    kept = KeptFolders(["state"], [])
    assert kept.restored == ["state"]
    assert content(state) == {"lives": "-"}
    kept.close()
    assert beside(state) == ["state"]


def test_a_folder_that_is_missing_after_such_a_death_is_restored_too(tmp_path, state):
    state.rename(tmp_path / "state.offbook-backup")
    kept = KeptFolders(["state"], [])
    kept.close()
    assert content(state) == {"lives": "-"}


def test_two_explorations_cannot_keep_one_folder(state):
    lock = os.open("state.offbook-lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    with pytest.raises(InputError, match="another exploration keeps this folder"):
        KeptFolders(["state"], [])
    os.close(lock)
    assert content(state) == {"lives": "-"}


@pytest.mark.parametrize(
    ("paths", "command", "reason"),
    [
        (["nowhere"], [], "there is no such folder"),
        (["run.json"], [], "there is no such folder"),
        ([], ["{keep}"], "{keep} stands for one folder, not 0"),
        (["state", "state"], ["{keep}"], "{keep} stands for one folder, not 2"),
        (["state", "nowhere"], [], "there is no such folder"),
    ],
)
def test_what_cannot_be_kept_is_refused_and_nothing_is_left(state, paths, command, reason):
    Path("run.json").write_text("{}")
    with pytest.raises(InputError) as refused:
        KeptFolders(paths, command)
    assert reason in str(refused.value)
    assert beside(state) == ["state"]


def test_a_folder_that_cannot_be_copied_is_refused(state):
    os.mkfifo(state / "pipe")
    with pytest.raises(InputError, match="it cannot be copied"):
        KeptFolders(["state"], [])
