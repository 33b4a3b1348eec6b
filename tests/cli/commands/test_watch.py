"""offbook test --watch: runs again whenever files change."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from offbook.cli.commands.test import poll_changes, run_on_change
from offbook.errors import InputError
from tests.cli import scenes

COMMAND = Path(sys.executable).parent / "offbook"
TIMEOUT_S = 60


def test_it_runs_at_once_and_after_each_change():
    runs = []
    assert run_on_change(lambda: runs.append(1) or len(runs), ["one", "two"]) == 3


def test_what_is_wrong_is_reported_and_waited_for_to_be_mended(capsys):
    outcomes = [InputError("this is no Python", source="sim_a.py:3"), 0]

    def run():
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    assert run_on_change(run, ["mended"]) == 0
    assert capsys.readouterr().err == "error: sim_a.py:3: this is no Python\n"


def test_the_last_exit_code_counts():
    def broken():
        raise InputError("this is no Python")

    assert run_on_change(broken, []) == 2


def test_an_interrupt_ends_it():
    def changes():
        yield
        raise KeyboardInterrupt

    assert run_on_change(lambda: 0, changes()) == 130


def test_a_run_that_is_interrupted_ends_it():
    assert run_on_change(lambda: 130, ["one", "two"]) == 130


@pytest.mark.parametrize("name", ["my_agent.py", "sims/sim_a.py", "offbook.toml", "flow.yaml"])
def test_files_that_a_run_depends_on_are_watched(tmp_path, write, name):
    file = write(name, "one")
    moments = iter([1, 2])
    os.utime(file, ns=(0, 0))
    changes = poll_changes(tmp_path, pause=lambda: os.utime(file, ns=(0, next(moments))))
    assert [next(changes), next(changes)] == [None, None]


def test_files_that_come_and_go_are_changes_and_others_are_none(tmp_path, write):
    def come():
        write("notes.txt", "x")
        write(".venv/lib.py", "x")
        yield
        write("new.py", "x")
        yield
        (tmp_path / "new.py").unlink()
        yield

    steps = come()
    pauses = []
    changes = poll_changes(tmp_path, pause=lambda: pauses.append(next(steps)))
    next(changes)
    assert len(pauses) == 2
    next(changes)
    assert len(pauses) == 3


def test_the_command_runs_again_when_a_file_changes_until_it_is_interrupted(write):
    write("my_agent.py", scenes.AGENT)
    write("offbook.toml", scenes.CONFIG)
    sim = write("sim_booking.py", scenes.SCRIPTED)
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    running = subprocess.Popen([COMMAND, "test", "--watch"], env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert any("1 of 1 scenario passed" in line for line in running.stdout)
        sim.write_text(scenes.SCRIPTED.replace("books a room", "books anew"))
        assert any("books anew" in line for line in running.stdout)
        running.send_signal(signal.SIGINT)
        assert running.wait(TIMEOUT_S) == 130
    finally:
        running.kill()
        running.wait()
        running.stdout.close()
