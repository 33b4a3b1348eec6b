"""The processes of programs: their ends, their output, and how long they may take."""

import os
import sys
import threading
import time

import pytest

from offbook.errors import InputError
from offbook.subjects.program.process import (
    MAX_OUTPUT_BYTES,
    EffectCounter,
    Patience,
    ProgramProcess,
    error_line,
    is_crash,
    is_own_error,
    named_error,
)

PATIENCE_S = 30.0
LEAVES_ONE_BEHIND = """
import subprocess, sys
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
"""
WRITES_MUCH = "import sys; sys.stdout.write('x' * 3_000_000); sys.stderr.write('done')"


class Countdown:
    """A deadline from now."""

    def __init__(self, deadline_s=PATIENCE_S):
        self.end_s = time.monotonic() + deadline_s

    def left_s(self):
        return self.end_s - time.monotonic()


def ran(code, *, deadline_s=PATIENCE_S, **environment):
    return ProgramProcess([sys.executable, "-c", code], {**os.environ, **environment}).run(Countdown(deadline_s).left_s)


def test_a_program_has_its_environment_and_no_input_and_its_outputs_are_kept():
    code = "import os, sys; print(os.environ['WORD'], sys.stdin.read() == ''); sys.exit('no')"
    ended = ran(code, WORD="grüß")
    assert ended.code == 1
    assert ended.stdout == "grüß True\n"
    assert ended.stderr == "no\n"


def test_a_program_that_a_signal_has_ended_says_so():
    assert ran("import os; os.kill(os.getpid(), 9)").code == -9


def test_a_program_that_takes_too_long_is_ended():
    ended = ran("import time; print('begun', flush=True); time.sleep(600)", deadline_s=0.2)
    assert ended.code is None
    assert ended.stdout in ("begun\n", "")


def test_a_program_that_says_much_never_waits_to_be_read_and_the_beginning_is_kept():
    ended = ran(WRITES_MUCH)
    assert ended.code == 0
    assert len(ended.stdout) == MAX_OUTPUT_BYTES
    assert ended.stderr == "done"


def test_what_a_program_leaves_behind_ends_with_it():
    """It holds the output of the program, which has an end all the same."""
    started_s = time.monotonic()
    assert ran(LEAVES_ONE_BEHIND).code == 0
    assert time.monotonic() - started_s < PATIENCE_S


def test_a_program_can_be_ended_from_another_thread():
    child = ProgramProcess([sys.executable, "-c", "import time; time.sleep(600)"], dict(os.environ))
    threading.Timer(0.2, child.kill).start()
    assert child.run(Countdown().left_s).code is None


def test_a_program_that_has_ended_can_be_ended_again():
    child = ProgramProcess([sys.executable, "-c", ""], dict(os.environ))
    assert child.run(Countdown().left_s).code == 0
    child.kill()


def test_a_program_that_is_not_wanted_any_more_ends_when_it_is_started():
    child = ProgramProcess([sys.executable, "-c", "import time; time.sleep(600)"], dict(os.environ))
    child.kill()
    assert child.run(Countdown().left_s).code is None


def test_a_program_that_cannot_be_started_is_refused(tmp_path):
    with pytest.raises(InputError, match="there is no such program"):
        ProgramProcess(["no-such-program"], {}).run(Countdown().left_s)
    with pytest.raises(InputError, match="Permission denied"):
        ProgramProcess([str(tmp_path)], {}).run(Countdown().left_s)


NODE = """file:///agent.mjs:3
  throw new TypeError("no")
        ^

TypeError: no
    at file:///agent.mjs:3:9

Node.js v22.1.0
"""
PYTHON = """Traceback (most recent call last):
  File "agent.py", line 3, in <module>
    raise openai.APIConnectionError
openai.APIConnectionError: Connection error.
"""


GROUP = """
class GaveUp(Exception): pass
def raised(error):
    try:
        raise error
    except Exception as caught:
        return caught
inner = ExceptionGroup("inner", [raised(GaveUp("no model")), raised(ValueError("no value"))])
raise ExceptionGroup("outer", [raised(inner), raised(KeyError("no key"))])
"""


def test_the_first_error_of_an_exception_group_is_the_one_that_ended_the_program():
    stderr = ran(GROUP).stderr
    assert error_line(stderr) == "GaveUp: no model"
    assert named_error(stderr, ["KeyError", "ValueError", "ExceptionGroup"]) == ""
    assert named_error(stderr, ["GaveUp"]) == "GaveUp"
    after = "During handling of the above exception, another exception occurred:"
    assert named_error(f"{stderr}\n{after}\n\n{PYTHON}", ["APIConnectionError"]) == "APIConnectionError"


@pytest.mark.parametrize(
    ("stderr", "words"),
    [
        (PYTHON, "openai.APIConnectionError: Connection error."),
        (NODE, "TypeError: no"),
        ("warning\npanic: all is lost\n\n", "panic: all is lost"),
        ("", ""),
    ],
)
def test_the_line_that_names_the_error_is_reported(stderr, words):
    assert error_line(stderr) == words


def test_a_long_line_is_cut():
    assert len(error_line("x" * 10_000)) == 500


CHAINED = f"""{PYTHON}
During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "a.py", line 1, in <module>
__main__.GaveUp: no
ValueError: in it
"""


@pytest.mark.parametrize("name", ["APIConnectionError", "openai.APIConnectionError"])
def test_the_class_of_an_error_is_named_with_or_without_its_module(name):
    assert named_error(PYTHON, [name]) == name
    assert named_error(PYTHON, ["ConnectionError", "APIStatusError"]) == ""


@pytest.mark.parametrize(
    "stderr",
    [
        'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n__main__.GaveUp: no model\n',
        'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n__main__.GaveUp\n',
        CHAINED,
        "/agent.mjs:3\n  throw new GaveUp()\n\nGaveUp [Error]: no model\n    at file:///agent.mjs:3:9\n\nNode.js v22\n",
        "Uncaught GaveUpError: no model\n",
    ],
)
def test_the_class_that_ends_a_program_is_found_in_its_output(stderr):
    assert named_error(stderr, ["GaveUp", "GaveUpError"])
    assert not named_error(stderr, ["APIConnectionError", "ValueError", "Traceback", "Error"])


def test_a_program_may_wait_as_long_as_its_deadline_and_longer_if_all_is_slow():
    patience = Patience(5.0)
    assert patience.wait_s == 5.0
    assert patience.idle_s == 60.0
    assert patience.start_s == 300.0
    patience.note(0.25)
    assert patience.start_s == 5.0
    assert patience.wait_s == 5.0
    assert patience.idle_s == 5.0
    assert patience.total_s == 5.0
    for took_s in (3.0, 2.0, 4.0):
        patience.note(took_s)
    assert patience.wait_s == 5.0
    assert patience.idle_s == 20.0
    assert patience.total_s == 20.0


def test_without_a_deadline_a_program_may_run_into_several_of_its_own_timeouts():
    patience = Patience()
    patience.note(1.0)
    assert patience.wait_s == 20.0
    assert patience.idle_s == 20.0
    assert patience.total_s == 120.0
    patience.note(0.1)
    assert patience.idle_s == 20.0


def test_effects_are_counted_as_they_are_added_and_read_once(tmp_path):
    file = tmp_path / "effects.jsonl"
    file.write_bytes(b'{"tool": "earlier"}\n')
    counter = EffectCounter(file, start=file.stat().st_size)
    counts = [counter.count()]
    for piece in (
        b'{"tool": "pay"}\n',
        b'[{"tool": "pay"}, {"tool": "pay"}]\nno effect\n{"to',
        b'ol": "pay"}',
        b"\n\n",
    ):
        with file.open("ab") as ledger:
            ledger.write(piece)
        counts.append(counter.count())
    assert counts == [0, 1, 3, 4, 4]
    file.write_bytes(file.read_bytes().replace(b"{", b"x"))
    assert counter.count() == 4
    file.write_bytes(b'{"tool": "a"}\n')
    assert counter.count() == 1


def test_a_file_that_is_not_there_has_no_effects_yet(tmp_path):
    counter = EffectCounter(tmp_path / "effects.jsonl")
    assert counter.count() == 0
    (tmp_path / "effects.jsonl").write_bytes(b'{"tool": "pay"}')
    assert counter.count() == 1


TRACEBACK = 'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n    go()\n'
STACK = "    at f (file:///a/node_modules/{package}/a.mjs:1:2)\n"
NODE = f"a.mjs:3\n    throw x\n    ^\n\n{{name}}: x\n{STACK}\nNode.js v20.1.0\n"


@pytest.mark.parametrize(
    ("stderr", "code"),
    [
        (TRACEBACK + "KeyError: 'x'\n", 1),
        (TRACEBACK + "json.decoder.JSONDecodeError: Expecting value\n", 1),
        (TRACEBACK + "pydantic_ai.exceptions.UserError: there is no such tool\n", 1),
        (TRACEBACK + "pydantic_core._pydantic_core.ValidationError: 1 error for A\nb\n  Field required\n", 1),
        ("", -9),
        (NODE.format(name="TypeError", package="openai"), 1),
        (NODE.format(name="APIError", package="mine"), 1),
        ("panic: no map\n\ngoroutine 1 [running]:\n", 2),
    ],
)
def test_an_error_that_nobody_has_caught_is_a_crash(stderr, code):
    assert is_crash(stderr, code)


@pytest.mark.parametrize(
    ("stderr", "code"),
    [
        ("", 1),
        ("sorry: the bank is closed\n", 3),
        (TRACEBACK + "openai.InternalServerError: Error code: 500\n", 1),
        (TRACEBACK + "botocore.errorfactory.ThrottlingException: An error occurred\n", 1),
        (TRACEBACK + "google.genai.errors.ServerError: 503 UNAVAILABLE\n", 1),
        (TRACEBACK + "httpx.ReadTimeout: timed out\n", 1),
        (TRACEBACK + "pydantic_ai.exceptions.ModelServerError: status_code: 500\n", 1),
        (TRACEBACK + "pydantic_ai.exceptions.UsageLimitExceeded: 50 requests\n", 1),
        (TRACEBACK + "agents.exceptions.MaxTurnsExceeded: Max turns (10) exceeded\n", 1),
        (TRACEBACK + "langgraph.errors.GraphRecursionError: Recursion limit of 25 reached\n", 1),
        (TRACEBACK + "KeyError: 'x'\ngave up after three tries\n", 1),
        (TRACEBACK + "KeyError: 'x'\n", 75),
        (NODE.format(name="InternalServerError", package="@anthropic-ai/sdk"), 1),
    ],
)
def test_an_exit_without_a_trace_and_an_error_of_an_sdk_are_ways_to_give_up(stderr, code):
    assert not is_crash(stderr, code)


OWN = 'Traceback (most recent call last):\n  File "{folder}/desk/main.py", line 1, in <module>\n    go()\n{error}: no\n'
OWN_NODE = "a.mjs:3\n    throw x\n    ^\n\n{name}: x\n    at f ({place})\n\nNode.js v20.1.0\n"


@pytest.mark.parametrize(
    ("is_own", "error"),
    [
        (True, "GaveUp"),
        (True, "desk.errors.GaveUp"),
        (True, "errors.GaveUp"),
        (False, "KeyError"),
        (False, "json.decoder.JSONDecodeError"),
        (False, "pydantic_core._pydantic_core.ValidationError"),
        (False, "offbook.errors.StepError"),
    ],
)
def test_an_error_of_the_program_itself_is_told_by_its_class(tmp_path, is_own, error):
    (tmp_path / "desk").mkdir()
    (tmp_path / "desk/errors.py").touch()
    assert is_own_error(OWN.format(folder=tmp_path, error=error)) is is_own


@pytest.mark.parametrize(
    ("is_own", "name", "place"),
    [
        (True, "GaveUp", "file:///a/desk.mjs:1:2"),
        (False, "Error", "file:///a/desk.mjs:1:2"),
        (False, "TypeError [ERR_X]", "file:///a/desk.mjs:1:2"),
        (False, "APIError", "file:///a/node_modules/mine/a.mjs:1:2"),
        (False, "ConnectTimeoutError", "node:internal/deps/undici/undici:1:2"),
    ],
)
def test_an_error_of_a_node_program_itself_is_told_by_its_class(is_own, name, place):
    assert is_own_error(OWN_NODE.format(name=name, place=place)) is is_own


def test_what_nobody_has_raised_is_no_error_of_the_program():
    assert not is_own_error("sorry: the bank is closed\n")
