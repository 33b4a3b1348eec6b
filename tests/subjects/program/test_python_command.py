"""Commands that run a Python program are recognised, and others are not."""

import os
import sys

import pytest

from offbook.subjects.program.python_command import parse_python_command


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "agent.py").write_text("")
    return tmp_path


def script(path, first_line):
    path.write_text(f"{first_line}\nprint()\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("words", "flags", "kind", "target", "arguments"),
    [
        (["agent.py"], (), "file", "agent.py", ()),
        (["-u", "-X", "dev", "-Wonce", "agent.py", "-v"], ("-u", "-X", "dev", "-Wonce"), "file", "agent.py", ("-v",)),
        (["-m", "agent.tool", "-m", "x"], (), "module", "agent.tool", ("-m", "x")),
        (["-um", "agent"], ("-u",), "module", "agent", ()),
        (["-Bc", "print()", "x"], ("-B",), "code", "print()", ("x",)),
    ],
)
def test_the_words_after_an_interpreter_are_read_as_python_does(words, flags, kind, target, arguments):
    found = parse_python_command([sys.executable, *words], os.environ)
    assert found.flags == flags
    assert found.kind == kind
    assert found.target == target
    assert found.arguments == arguments
    assert found.command[0] == sys.executable


@pytest.mark.parametrize(
    "command",
    [
        [sys.executable],
        [sys.executable, "-"],
        [sys.executable, "-i", "agent.py"],
        [sys.executable, "--version"],
        [sys.executable, "-m"],
        [sys.executable, "missing.py"],
        ["bash", "-c", "python agent.py"],
        ["no-such-program"],
        ["uv", "run"],
    ],
)
def test_other_commands_are_left_alone(command):
    assert parse_python_command(command, os.environ) is None


@pytest.mark.parametrize(
    "first_line",
    [
        f"#!{sys.executable} -u",
        "#!/usr/bin/env python3",
        f'#!/bin/sh\n\'\'\'exec\' "{sys.executable}" "$0" "$@"',
    ],
)
def test_a_script_is_run_by_the_python_that_its_first_line_names(first_line, folder):
    path = script(folder / "my-agent", first_line)
    found = parse_python_command([path, "one"], os.environ)
    assert found.kind == "file"
    assert found.target == path
    assert found.arguments == ("one",)


def test_a_script_of_another_interpreter_is_left_alone(folder):
    assert parse_python_command([script(folder / "my-agent", "#!/bin/bash")], os.environ) is None


@pytest.mark.parametrize(
    ("words", "kind", "target"),
    [
        (["--with", "openai", "agent.py", "one"], "file", "agent.py"),
        (["--frozen", "--", "python", "-u", "agent.py", "one"], "file", "agent.py"),
        (["-m", "agent", "one"], "module", "agent"),
    ],
)
def test_uv_is_asked_for_its_interpreter_and_environment(words, kind, target, folder):
    """A stand-in for uv: it runs what follows its options in another environment."""
    uv = script(folder / "uv", f'#!/bin/sh\nshift $(($# - 3))\nexport UV_MARK=1\nexec {sys.executable} "$2" "$3"')
    found = parse_python_command([uv, "run", *words], os.environ)
    assert found.kind == kind
    assert found.target == target
    assert found.arguments == ("one",)
    assert found.interpreter == sys.executable
    assert found.environment["UV_MARK"] == "1"


def test_a_script_with_dependencies_of_its_own_is_left_to_uv(folder):
    (folder / "agent.py").write_text("# /// script\n# dependencies = []\n# ///\n")
    uv = script(folder / "uv", f'#!/bin/sh\nshift $(($# - 3))\nexec {sys.executable} "$2" "$3"')
    assert parse_python_command([uv, "run", "agent.py"], os.environ) is None
