"""The command itself: help, version, completion, and how bad input ends."""

import json
import os
import re
import resource
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

import offbook
from offbook.cli.app import MainGroup, McpGroup, RecordingGroup
from offbook.explore.settings import ExploreArguments

WIDTH = 80
ALL_COMMANDS = [
    *MainGroup.table,
    *(f"recording {name}" for name in RecordingGroup.table),
    *(f"mcp {name}" for name in McpGroup.table),
]
COMMANDS = ["show", "check", "diff", "merge", "redact", "prune"]


def test_version_is_reported(run):
    assert run("--version") == (0, f"offbook {offbook.__version__}\n", "")


def test_without_arguments_help_shows_every_command_those_for_any_agent_first(run):
    _, out, err = run()
    listed = [line.split()[0] for line in (out + err).partition("Start here:")[2].splitlines() if line.strip()]
    assert {*MainGroup.table} <= {*listed}
    assert listed.index("exec") < listed.index("run")


@pytest.mark.parametrize("command", ALL_COMMANDS)
def test_each_command_has_help_with_examples(run, command):
    code, out, _ = run(*command.split(), "--help")
    assert code == 0
    assert "Examples" in out
    assert f"offbook {command}" in out
    assert all(len(line) > WIDTH // 2 for line in filled_lines(out))


def test_the_options_of_explore_are_in_panels_by_what_they_are_for(run):
    _, out, _ = run("explore", "--help")
    panels = [line.split("─")[1].strip() for line in out.splitlines() if line.startswith("╭")]
    assert panels == ["Arguments", "Options", *ExploreArguments.panels]
    options = out.partition("─ Options ─")[2].partition("╰")[0]
    assert [line.split()[1] for line in options.splitlines()[1:] if "--" in line] == ["--option", "--help"]


def filled_lines(help_text):
    """The lines of paragraphs that another line of the same paragraph follows: they fill the width of the terminal."""
    lines = [line.strip() for line in help_text.partition("╭")[0].splitlines()]
    return [line for line, following in pairwise(lines) if line and following]


@pytest.mark.parametrize(("typed", "meant"), [(["replya"], "replay"), (["recording", "shwo"], "show")])
def test_a_mistyped_command_is_bad_input_and_the_right_one_is_proposed(run, typed, meant):
    code, _, err = run(*typed)
    assert code == 2
    assert f"Did you mean '{meant}'?" in err


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (["help", "exec"], "offbook exec -h"),
        (["version"], "offbook --version"),
        (["record", "x.json"], "offbook exec --record"),
        (["show", "x.json"], "offbook recording show"),
        (["recording", "edit"], "offbook recording check"),
    ],
)
def test_a_word_that_is_no_command_but_is_often_tried_says_what_to_type(run, typed, meant):
    code, _, err = run(*typed)
    assert code == 2, err
    assert meant in " ".join(err.split())


@pytest.mark.parametrize(
    ("typed", "wrong", "meant"),
    [
        (["exec", "-replay", "run.json", "--", "true"], "-replay", "--replay"),
        (["exec", "-replay=run.json", "--", "true"], "-replay", "--replay"),
        (["exec", "-quiet", "--replay", "run.json", "--", "true"], "-quiet", "--quiet"),
        (["recording", "show", "run.json", "-jsn"], "-jsn", "--json"),
        (["-version"], "-version", "--version"),
    ],
)
def test_a_mistyped_option_is_bad_input_and_the_right_one_is_proposed(run, typed, wrong, meant):
    code, _, err = run(*typed)
    assert code == 2
    assert f"No such option: {wrong} (Possible options: {meant}" in " ".join(err.split())


@pytest.mark.parametrize("name", ["exec", "explore", "replay", "run", "serve", "test"])
def test_commands_that_answer_from_a_recording_take_it_by_both_names(name):
    options = [set(parameter.opts) for parameter in MainGroup.table[name].load(name).params]
    assert {"--replay", "--recording"} in options


@pytest.mark.parametrize("name", MainGroup.table)
def test_help_has_no_brackets_that_would_be_taken_for_markup(name):
    assert set(re.findall(r"\[/?(\w[^\]]*)\]", MainGroup.table[name].load(name).help or "")) <= {"bold"}


@pytest.mark.parametrize(
    ("typed", "proposed"),
    [
        (["exec", "--mock-responses", "x.json", "--", "true"], "--mock-responses (Possible options: --replay"),
        (["replay", "flow.yaml", "--mock-responses", "x.json"], "(Possible options: --recording"),
        (["mcp", "serve", "--recording", "x.json"], "--recording; it is an argument: offbook mcp serve PATH"),
        (["recording", "show", "--replay", "x.json"], "--replay; it is an argument: offbook recording show PATH"),
        (["validate", "flow.yaml", "--replay", "x.json"], "--replay; commands with it: exec, explore, replay, run,"),
    ],
)
def test_another_name_for_the_recording_is_bad_input_and_the_right_place_is_proposed(run, typed, proposed):
    code, _, err = run(*typed)
    assert code == 2, err
    assert proposed in " ".join(err.replace("│", " ").split())


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (["exec", "--record", "x.json", "--record-mode", "frehs", "--", "true"], "fresh"),
        (["serve", "--replay", "x.json", "-o", "latency_model=constnat"], "constant"),
        (["explore", "x.yaml", "-o", "on_divergence=stpo"], "stop"),
        (["graph", "x.yaml", "--format", "mermiad"], "mermaid"),
        (["schema", "worflow"], "workflow"),
        (["recording", "export", "x.json", "--format", "otle"], "otel"),
    ],
)
def test_a_mistyped_choice_is_bad_input_and_the_right_one_is_proposed(run, typed, meant):
    code, _, err = run(*typed)
    shown = " ".join(err.replace("│", " ").split())
    assert code == 2
    assert f"did you mean {meant!r}?" in shown.lower()
    assert "Value error" not in shown


@pytest.mark.parametrize(
    ("typed", "problem"),
    [
        (["serve", "--replay", "x.json", "--port", "abc"], "'--port': 'abc' is not an integer."),
        (["serve", "--replay", "x.json", "--port", "99999"], "'--port': 99999 is more than 65535."),
        (["exec", "-o", "latency_ms=nan", "--", "true"], "-o latency_ms=nan: expected a number, got nan"),
        (["exec", "-o", "retry_after_ms=-5", "--", "true"], "expected a number of at least 0, got -5"),
        (["exec", "--replay", "--", "true"], "Option '--replay' requires an argument before '--'."),
        (["explore", "--replay", "--", "true"], "Option '--replay' requires an argument."),
        (["serve", "x.json"], "Did you mean '--replay x.json'?"),
        (["replay", "flow.yaml", "x.json"], "Did you mean '--recording x.json'?"),
    ],
)
def test_a_wrong_or_missing_value_of_an_option_is_bad_input_and_named(run, typed, problem):
    code, _, err = run(*typed)
    assert code == 2
    assert problem in " ".join(err.replace("│", " ").split())


def test_completion_can_be_shown(run, monkeypatch):
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    code, out, _ = run("--show-completion", "bash")
    assert code == 0
    assert "complete" in out


@pytest.mark.parametrize(
    ("typed", "proposed"),
    [
        ("offbook re", {"replay", "recording", "resume"}),
        ("offbook replay --rec", {"--recording"}),
        ("offbook explore -o dea", {"deadline="}),
    ],
)
def test_commands_and_options_are_completed(run, monkeypatch, typed, proposed):
    monkeypatch.setenv("_OFFBOOK_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", typed)
    monkeypatch.setenv("COMP_CWORD", str(typed.count(" ")))
    code, out, _ = run()
    assert code == 0
    assert set(out.split()) == proposed


def write(path, text):
    path.write_text(text)
    return path


BAD = {
    "truncated": '{"a": {"content": "x"',
    "not JSON": "hello",
    "array": "[]",
    "empty": "",
    "newer version": '{"_version": 9}',
    "version of the wrong type": '{"_version": "two"}',
    "entry of the wrong type": '{"a": 5}',
    "field of the wrong type": '{"a": {"content": 5}}',
    "unknown field": '{"a": {"contents": "x"}}',
    "unknown fault": '{"a": {"fault": {"type": "explode"}}}',
    "climbing key": '{"../../etc/passwd": {"content": "x"}}',
    "control characters in a key": '{"a\\u001b[2J": {"content": "x"}}',
    "escape codes in an unknown field": '{"a": {"\\u001b[2J": "x"}}',
    "surrogates": '{"a": {"content": "\\ud800"}}',
    "deep nesting": '{"a": ' + "[" * 100_000 + "]" * 100_000 + "}",
}


@pytest.mark.parametrize("text", BAD.values(), ids=BAD.keys())
@pytest.mark.parametrize("command", COMMANDS)
def test_bad_input_ends_in_one_screen_and_exit_code_2_and_is_left_as_it_is(run, tmp_path, command, text):
    path = write(tmp_path / "bad.json", text)
    good = write(tmp_path / "good.json", '{"_version": 2}')
    arguments = {"diff": [good], "merge": ["-o", tmp_path / "out.json"], "prune": ["--faults"]}.get(command, [])
    code, out, err = run("recording", command, path, *arguments)
    output = out + err
    assert code == 2
    assert "bad.json" in output
    assert "Traceback" not in output
    assert "\x1b[2J" not in output
    assert len(output.splitlines()) <= 24
    assert len(output) <= 4_000
    assert path.read_text() == text
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bad.json", "good.json"]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_folder_instead_of_a_file_is_bad_input(run, tmp_path, command):
    arguments = {"diff": [tmp_path], "merge": ["-o", tmp_path / "out.json"], "prune": ["--faults"]}.get(command, [])
    code, out, err = run("recording", command, tmp_path, *arguments)
    assert code == 2
    assert "folder" in out + err


@pytest.mark.parametrize("name", ["missing.json", "sqlite:///missing.db", "redis://host/0", "data.db", "x://y", ""])
def test_a_recording_that_is_not_there_is_bad_input(run, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    code, _, err = run("recording", "show", name)
    assert code == 2
    assert "hint:" in err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("command", "meant"),
    [
        (["run", "flwo.yaml"], "flow.yaml"),
        (["graph", "flow.yml"], "flow.yaml"),
        (["explore", "flow.yaml", "--recording", "run.jsn"], "run.json"),
        (["explore", "sim_refnd.py"], "sim_refund.py"),
        (["exec", "--replay", "runs.json", "--", "true"], "run.json"),
        (["replay", "flow.yaml", "--recording", "rnu.json"], "run.json"),
        (["recording", "show", "rnu.json"], "run.json"),
        (["recording", "show", "sqlite:///run.jso"], "run.json"),
        (["recording", "import", "rnu.json", "--output", "x.json"], "run.json"),
        (["view", "rnu.json"], "run.json"),
        (["run", "flow.yaml", "--state", "rnu.json"], "run.json"),
    ],
)
def test_a_mistyped_name_of_a_file_gets_the_one_that_is_there(run, greet, write, command, meant):
    write("sim_refund.py", "")
    write("flow.yaml", Path(greet).read_text())
    code, _, err = run(*command)
    assert code == 2, err
    assert f"did you mean '{meant}'?" in err


def test_a_gigabyte_is_refused_without_reading_it(run, tmp_path):
    path = tmp_path / "huge.json"
    with path.open("wb") as file:
        file.write(b'{"a": {"content": "')
        file.truncate(1_100_000_000)
    code, _, err = run("recording", "show", path)
    assert code == 2
    assert "sqlite:///" in err


def test_the_installed_command_exits_with_2_on_bad_input(tmp_path):
    command = Path(sys.executable).parent / "offbook"
    path = write(tmp_path / "bad.json", "{")
    done = subprocess.run(
        [command, "recording", "show", path], capture_output=True, text=True, check=False, env=os.environ
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("command", "advice"),
    [
        (["replay", "flow.yaml", "--recording", "old.json"], "else record it again, or add --allow-default-fallback"),
        (["exec", "--replay", "old.json", "--", "true"], "else record it again, or add --lenient"),
        (["serve", "--replay", "old.json"], "else record it again, or add --lenient"),
    ],
)
def test_the_hint_for_an_old_recording_names_the_option_of_the_command(run, greet, write, command, advice):
    write("old.json", '{"hello": {"content": "Hello!"}}')
    command = [greet if each == "flow.yaml" else each for each in command]
    code, _, err = run(*command)
    assert code == 2
    assert err.splitlines()[-1].partition("; ")[2] == advice


def test_a_disk_without_room_is_a_failure_and_no_bad_input(tmp_path):
    (tmp_path / "run.json").write_text(json.dumps({"_version": 2, "a": {"content": f"ghp_{'a1B2c3D4e5' * 4}"}}))
    before = (tmp_path / "run.json").read_bytes()
    done = subprocess.run(
        [Path(sys.executable).with_name("offbook"), "recording", "redact", "run.json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10)),
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: run.json: file too large")
    assert (tmp_path / "run.json").read_bytes() == before
