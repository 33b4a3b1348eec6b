"""Running commands: the allowed ones alone, without a shell, and nothing of them is left behind."""

import asyncio
import json
import os
import re
import select
import shlex
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

import offbook
from offbook import MockProvider, ToolCall
from offbook.errors import ToolFailureError, ToolRefusalError, ToolTimeoutError
from offbook.tools import run_tool
from offbook.workflow import WorkflowEngine
from offbook.workflow.builtin_tools import fill_command, shell, split_command
from offbook.workflow.file.schema import COMMAND_PATTERN
from tests.workflow.builtin_tools.calls import outcome_of, text_of

PATIENCE_MS = 10_000
LINGER = """\
exec 9>life
echo started >&9
sleep 60 &
sleep 60
"""


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Makes programs that are found on the PATH."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")

    def add(name, script):
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "bin" / name).chmod(0o755)

    return add


@pytest.fixture
def life(tmp_path):
    """A pipe that ends when no process that has opened it for writing is left."""
    os.mkfifo(tmp_path / "life")
    descriptor = os.open(tmp_path / "life", os.O_RDONLY | os.O_NONBLOCK)
    yield descriptor
    os.close(descriptor)


def has_ended(life):
    """Whether all that holds the pipe ends soon."""
    ended = select.poll()
    ended.register(life, 0)
    return bool(ended.poll(PATIENCE_MS))


def shell_in(folder, *allow, timeout_s=30.0):
    return shell("run", allow=allow, folder=folder, timeout_s=timeout_s)


def test_a_model_is_told_what_the_tool_does_and_which_commands_it_may_run(tmp_path):
    tool = shell_in(tmp_path, "ls", "wc")
    assert tool.spec.description == (
        "Run a command, without a shell: no pipes, redirections, variables or wildcards. "
        "Commands that you may run: ls, wc."
    )
    assert list(tool.spec.schema["properties"]) == ["command"]
    assert tool.side_effect


def test_a_command_runs_in_the_folder_of_the_workflow(tmp_path):
    (tmp_path / "my notes.txt").write_text("a\nb\n")
    assert text_of(shell_in(tmp_path, "wc"), command="wc -l 'my notes.txt'") == "2 my notes.txt"


@pytest.mark.parametrize("command", ["rm x", "/bin/ls", "./ls", "bin/ls", "LS", "", "  ", "A=b ls", "'ls '", "''"])
def test_another_command_is_refused_and_the_allowed_ones_are_named(tmp_path, command):
    with pytest.raises(ToolRefusalError, match="is not allowed; allowed: ls, wc") as caught:
        text_of(shell_in(tmp_path, "ls", "wc"), command=command)
    assert caught.value.tool == "run"


@pytest.mark.parametrize("command", ["ls; touch x", "ls > x", "ls $(touch x)", "ls `touch x`", "ls | tee x", "ls 'x"])
def test_what_needs_a_shell_is_refused_and_nothing_runs(tmp_path, command):
    with pytest.raises(ToolRefusalError):
        text_of(shell_in(tmp_path, "ls"), command=command)
    assert list(tmp_path.iterdir()) == []


def test_a_quoted_sign_is_an_argument_and_no_more(tmp_path):
    assert text_of(shell_in(tmp_path, "echo"), command="echo '; touch x' '$(touch y)'") == "; touch x $(touch y)"
    assert list(tmp_path.iterdir()) == []


def test_a_command_that_fails_reports_its_exit_code_and_what_it_says(tmp_path, programs):
    programs("fail", "echo out; echo oh no >&2; exit 3")
    assert text_of(shell_in(tmp_path, "fail"), command="fail") == "[exit code 3]\nout\n[stderr]\noh no"


def test_a_command_that_a_signal_ends_reports_its_number(tmp_path, programs):
    programs("crash", "kill -9 $$")
    assert text_of(shell_in(tmp_path, "crash"), command="crash") == "[exit code -9]"


def test_complaints_of_a_command_that_succeeds_are_reported_too(tmp_path, programs):
    programs("warn", "echo careful >&2")
    assert text_of(shell_in(tmp_path, "warn"), command="warn") == "[stderr]\ncareful"


def test_a_command_sees_no_secrets_and_no_input(tmp_path, programs, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("HOME", "/home/ada")
    monkeypatch.setenv("LANG", "C.UTF-8")
    programs("look", "env; cat")
    seen = text_of(shell_in(tmp_path, "look"), command="look").splitlines()
    assert {line.partition("=")[0] for line in seen} - {"PWD", "OLDPWD", "SHLVL", "_"} == {"PATH", "HOME", "LANG"}
    assert "HOME=/home/ada" in seen


def test_programs_in_the_folder_itself_are_not_found(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f".{os.pathsep}{os.pathsep}{os.environ['PATH']}")
    (tmp_path / "ours").write_text("#!/bin/sh\necho ours\n")
    (tmp_path / "ours").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ToolFailureError, match="ours is not installed"):
        text_of(shell_in(tmp_path, "ours"), command="ours")


@pytest.mark.parametrize("command", ["echo 'a\0b'", "echo '\ud800'", "echo " + "x" * 3_000_000])
def test_what_cannot_be_run_is_reported(tmp_path, command):
    with pytest.raises(ToolFailureError, match="echo cannot be run"):
        text_of(shell_in(tmp_path, "echo"), command=command)


def test_of_a_long_output_the_beginning_is_kept(tmp_path, programs):
    programs("talk", "head -c 100000 /dev/zero | tr '\\0' x; head -c 70000 /dev/zero | tr '\\0' y >&2")
    output = text_of(shell_in(tmp_path, "talk"), command="talk")
    assert output == "x" * 64_000 + "\n[36000 more bytes]\n[stderr]\n" + "y" * 64_000 + "\n[6000 more bytes]"


def test_output_that_is_no_text_is_shown_all_the_same(tmp_path, programs):
    programs("odd", "printf 'a\\377b'")
    assert text_of(shell_in(tmp_path, "odd"), command="odd") == "a�b"


def test_a_command_that_takes_too_long_is_killed_with_what_it_has_started(tmp_path, programs, life):
    programs("linger", LINGER)
    os.close(os.open(tmp_path / "life", os.O_WRONLY))  # else it never ends if the program is killed before it opens it
    started_s = time.monotonic()
    error = outcome_of(shell_in(tmp_path, "linger", timeout_s=0.5), command="linger").error
    assert isinstance(error, ToolTimeoutError)
    assert 0.5 <= time.monotonic() - started_s < 30
    assert has_ended(life)


async def test_a_command_that_nobody_waits_for_any_more_is_killed_with_what_it_has_started(tmp_path, programs, life):
    programs("linger", LINGER)
    running = asyncio.create_task(run_tool(shell_in(tmp_path, "linger"), ToolCall("run", {"command": "linger"})))
    started = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().add_reader(life, lambda: started.done() or started.set_result(os.read(life, 100)))
    assert await started == b"started\n"
    asyncio.get_running_loop().remove_reader(life)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert has_ended(life)


def test_what_a_command_leaves_running_is_killed_when_it_ends(tmp_path, programs, life):
    programs("leave", "exec 9>life\nsleep 60 >/dev/null 2>&1 &\necho done")
    assert text_of(shell_in(tmp_path, "leave"), command="leave") == "done"
    assert has_ended(life)


def test_a_command_that_says_nothing_more_is_waited_for_in_real_time(tmp_path, programs):
    programs("quiet", "exec >/dev/null 2>&1\nsleep 0.2\nexit 4")
    assert text_of(shell_in(tmp_path, "quiet"), command="quiet") == "[exit code 4]"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ls -l notes", ["ls", "-l", "notes"]),
        ("wc -l 'my notes.txt'", ["wc", "-l", "my notes.txt"]),
        ('grep "a|b;c" x', ["grep", "a|b;c", "x"]),
        ("awk '{print $1}' x", ["awk", "{print $1}", "x"]),
        ("find . -name '*.py'", ["find", ".", "-name", "*.py"]),
        ("find . -name \\*.py", ["find", ".", "-name", "*.py"]),
        ('echo "it\'s" \'"quoted" `it`\'', ["echo", "it's", '"quoted" `it`']),
        ('echo "a \\$b"', ["echo", "a $b"]),
        ("git show HEAD~1 a=b {x,y} [z] #no", ["git", "show", "HEAD~1", "a=b", "{x,y}", "[z]", "#no"]),
        ('echo "a\\b" "c\\"d" "e\\\\f" "g\\\nh"', ["echo", "a\\b", 'c"d', "e\\f", "gh"]),
        ("echo 'a'\\''b'c\"d\"", ["echo", "a'bcd"]),
        ("echo '' \"\" \t x\n", ["echo", "", "", "x"]),
        ("", []),
    ],
)
def test_words_are_quoted_as_in_a_shell(line, expected):
    assert split_command(line) == expected


@pytest.mark.parametrize(
    ("line", "sign"),
    [
        ("ls; rm x", ";"),
        ("ls | wc", "|"),
        ("ls && rm x", "&"),
        ("ls > x", ">"),
        ("wc < x", "<"),
        ("(ls)", "("),
        ("ls\nrm x", "\n"),
        ("ls 'a' 'b';rm x", ";"),
        ("ls \\; rm; x", ";"),
        ("echo 'a'\\''b' | wc", "|"),
    ],
)
def test_what_joins_commands_is_refused(line, sign):
    with pytest.raises(ValueError, match=re.escape(f"there is no shell, so {sign!r} has no effect")):
        split_command(line)


@pytest.mark.parametrize(
    ("line", "sign"),
    [
        ("echo $HOME", "$"),
        ("echo $(id)", "$"),
        ('echo "$(id)"', "$"),
        ("echo `id`", "`"),
        ('echo "`id`"', "`"),
        ('echo "a\\\\$b"', "$"),
        ("ls *.py", "*"),
        ("ls ?.py", "?"),
    ],
)
def test_what_stands_for_something_else_is_refused(line, sign):
    with pytest.raises(ValueError, match=re.escape(f"{sign!r} is not expanded; put it in single quotes")):
        split_command(line)


@pytest.mark.parametrize("line", ["echo 'a", 'echo "a', "echo a\\"])
def test_a_line_that_does_not_end_is_refused(line):
    with pytest.raises(ValueError, match="in the command line is not closed"):
        split_command(line)


@given(st.lists(st.text()))
def test_whatever_is_quoted_comes_through(arguments):
    assert split_command(shlex.join(arguments)) == arguments


@pytest.mark.parametrize("name", ["ls", "python3.11", "g++", "apt-get", "7z", "_x"])
def test_a_command_is_a_bare_name(name):
    assert re.match(COMMAND_PATTERN, name)


@pytest.mark.parametrize("name", ["", "/bin/ls", "./run", "..", "-x", "ls -l", "a;b", "a$"])
def test_what_is_no_bare_name_is_no_command(name):
    assert not re.match(COMMAND_PATTERN, name)


ECHO = """
name: flow
state: {o: "", n: 3}
tools: {run: {builtin: shell, allow: [printf]}}
steps:
  - {id: a, type: tool, tool: run, args: {command: COMMAND}, output: said}
"""
WORDS = r"printf '[%s]' "


def result_of(command, tmp_path, **state):
    (tmp_path / "flow.yaml").write_text(ECHO.replace("COMMAND", json.dumps(command)))
    return offbook.run(WorkflowEngine(tmp_path / "flow.yaml", MockProvider(default_response="?")).run(state))


def said_of(command, tmp_path, **state):
    result = result_of(command, tmp_path, **state)
    return result.steps["a"].error or result.state["said"]


@pytest.mark.parametrize(
    "answer",
    [
        "x /etc/hostname",
        "a'b",
        'a"b c',
        "$(id) `id` *",
        "a;b|c>d",
        "",
        "two\nlines",
        "\\",
        "' '",
        "\ue0001\ue001",
        "{state.n}",
    ],
)
@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (WORDS + "data/{state.o} end", "[data/{}][end]"),
        (WORDS + "{state.o}", "[{}]"),
        (WORDS + "'a {state.o}' {state.n}", "[a {}][3]"),
        (WORDS + '"{state.o}{state.o}"', "[{}{}]"),
        (["printf", "[%s]", "data/{state.o}", "end", 3, "{state.n}"], "[data/{}][end][3][3]"),
    ],
)
def test_what_comes_from_the_state_is_one_word(command, expected, answer, tmp_path):
    assert said_of(command, tmp_path, o=answer) == expected.replace("{}", answer).rstrip("\n")


def test_a_value_that_is_no_text_is_one_word_too(tmp_path):
    assert said_of(WORDS + "{state.o}", tmp_path, o=["a b", "c"]) == '[["a b","c"]]'


def test_a_whole_command_from_the_state_is_one_word_and_refused(tmp_path):
    assert "'printf x' is not allowed" in str(said_of("{state.o}", tmp_path, o="printf x"))


def test_a_line_that_needs_a_shell_is_refused_as_before(tmp_path):
    assert "there is no shell, so '|' has no effect" in str(said_of("printf {state.o} | cat", tmp_path, o="x"))


def test_a_line_keeps_its_quotes_where_its_values_need_none(tmp_path):
    assert fill_command('wc "my {state.o}"', {"state": {"o": "notes"}}) == 'wc "my notes"'
    assert fill_command('wc "my {state.o}"', {"state": {"o": 'no"tes'}}) == "wc 'my no\"tes'"
