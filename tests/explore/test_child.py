"""Programs that are run with their output kept."""

import os
import sys
import threading
import time

import pytest

from offbook.errors import InputError
from offbook.explore.child import MAX_KEPT_BYTES, Child

PATIENCE_S = 30.0
LEAVES_ONE_BEHIND = """
import subprocess, sys
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
"""
WRITES_MUCH = "import sys; sys.stdout.write('x' * 3_000_000); sys.stderr.write('done')"


def ran(code, *, deadline_s=PATIENCE_S, **environment):
    return Child([sys.executable, "-c", code], {**os.environ, **environment}).run(deadline_s)


def test_a_program_has_its_environment_and_no_input_and_its_outputs_are_kept():
    code = "import os, sys; print(os.environ['WORD'], sys.stdin.read() == ''); sys.exit('no')"
    ended = ran(code, WORD="grüß")
    assert (ended.code, ended.stdout, ended.stderr) == (1, "grüß True\n", "no\n")


def test_a_program_that_a_signal_has_ended_says_so():
    assert ran("import os; os.kill(os.getpid(), 9)").code == -9


def test_a_program_that_takes_too_long_is_ended():
    ended = ran("import time; print('begun', flush=True); time.sleep(600)", deadline_s=2.0)
    assert ended.code is None
    assert ended.stdout in ("begun\n", "")


def test_a_program_that_says_much_never_waits_to_be_heard_and_the_beginning_is_kept():
    ended = ran(WRITES_MUCH)
    assert (ended.code, len(ended.stdout), ended.stderr) == (0, MAX_KEPT_BYTES, "done")


def test_what_a_program_leaves_behind_ends_with_it():
    """It holds the output of the program, which has an end all the same."""
    started_s = time.monotonic()
    assert ran(LEAVES_ONE_BEHIND).code == 0
    assert time.monotonic() - started_s < PATIENCE_S


def test_a_program_can_be_ended_from_another_thread():
    child = Child([sys.executable, "-c", "import time; time.sleep(600)"], dict(os.environ))
    threading.Timer(0.2, child.kill).start()
    assert child.run(PATIENCE_S).code is None


def test_a_program_that_has_ended_can_be_ended_again():
    child = Child([sys.executable, "-c", ""], dict(os.environ))
    assert child.run(PATIENCE_S).code == 0
    child.kill()


def test_a_program_that_is_not_wanted_any_more_ends_when_it_is_started():
    child = Child([sys.executable, "-c", "import time; time.sleep(600)"], dict(os.environ))
    child.kill()
    assert child.run(PATIENCE_S).code is None


def test_a_program_that_cannot_be_started_is_refused(tmp_path):
    with pytest.raises(InputError, match="there is no such program"):
        Child(["no-such-program"], {}).run(PATIENCE_S)
    with pytest.raises(InputError, match="Permission denied"):
        Child([str(tmp_path)], {}).run(PATIENCE_S)
