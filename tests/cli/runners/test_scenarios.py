"""offbook test: calls without an answer, and --watch, which runs again whenever files change."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from offbook.cli.runners.scenarios import poll_changes, run_on_change
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


CARELESS = """\
async def handle(messages, ctx):
    try:
        response = await ctx.provider.complete(messages, "m", step_id="answer")
        return response.content
    except Exception:
        return "All done!"


async def confused(messages, ctx):
    return ctx.provider.complete_sync(messages, "m").content
"""


class TestUnanswered:
    """A call without an answer is in the result, whoever caught its error."""

    @pytest.fixture
    def careless(self, write):
        write("my_agent.py", CARELESS)
        write("offbook.toml", scenes.CONFIG)
        write("empty.json", '{"_version": 2}')
        return write("sim_it.py", 'from offbook import scenario\nscenario("asks", turns="hi")\n')

    def test_a_replay_without_the_request_of_an_agent_that_swallows_errors_exits_with_3(self, run, careless):
        code, out, _err = run("test", "--replay", "empty.json")
        assert code == 3
        assert "mismatch: " in out
        assert "hint: record it again, or undo the change: offbook test --record empty.json" in out

    def test_the_hint_names_the_same_scenarios_and_leaves_json_alone(self, run, careless):
        code, out, err = run("test", "sim_it.py", "--scenario", "asks", "--replay", "empty.json", "--json")
        assert (code, json.loads(out)["passed"]) == (3, False)
        assert "offbook test sim_it.py --scenario asks --record empty.json" in err

    def test_a_model_call_of_an_agent_without_a_provider_fails_even_if_the_error_is_swallowed(self, run, careless):
        code, out, _err = run("test")
        assert code == 1
        assert "error: agent booking: the agent has no provider" in out

    def test_a_run_that_ends_with_an_error_prints_one_json_document(self, run, careless, write):
        write("offbook.toml", scenes.CONFIG.replace(":handle", ":confused"))
        code, out, _err = run("test", "--replay", "empty.json", "--json")
        assert (code, json.loads(out)["error"]["type"]) == (1, "EventLoopError")
