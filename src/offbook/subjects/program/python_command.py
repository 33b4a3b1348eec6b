"""Recognises commands that run a Python program: `python file.py`, `python -m module`, console scripts, `uv run …`."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

_INTERPRETER = re.compile(r"python(3(\.\d+)?)?")
_VALUE_FLAGS = frozenset("WX")
_PLAIN_FLAGS = frozenset("bBdEiIOPqRsSuvx")
_ENDING_FLAGS = frozenset("ix")  # an interactive prompt, and a first line that is not Python
_SHELL_SHEBANG = re.compile(rb"""'''exec' "?([^"\n]+?)"? "\$0" "\$@"$""")
# fmt: off
_UV_VALUES = frozenset((
    "--extra", "--no-extra", "--group", "--no-group", "--only-group", "--env-file", "--with",
    "--with-editable", "--with-requirements", "--python", "-p", "--package", "--directory", "--project",
    "--index", "--default-index", "--index-url", "-i", "--extra-index-url", "--find-links", "-f",
    "--upgrade-package", "-P", "--reinstall-package", "--index-strategy", "--keyring-provider", "--resolution",
    "--prerelease", "--fork-strategy", "--exclude-newer", "--link-mode", "--config-setting", "-C",
    "--no-build-isolation-package", "--no-build-package", "--no-binary-package", "--refresh-package",
    "--cache-dir", "--config-file", "--color", "--python-preference", "--allow-insecure-host",
    "--python-platform",
))
# fmt: on
UV_PROBE = "import json, os, sys; print(json.dumps([sys.executable, dict(os.environ)]))"
PROBE_S = 300.0
"""The seconds for `uv` to prepare an environment."""


class PythonCommand(Struct, frozen=True, kw_only=True):
    """A Python program: its interpreter with its flags, its script or module, and its arguments.

    `environment` has variables that a runner such as uv adds.
    """

    interpreter: str
    flags: tuple[str, ...] = ()
    kind: Literal["file", "module", "code"]
    target: str
    arguments: tuple[str, ...] = ()
    environment: dict[str, str] = {}

    @property
    def command(self) -> list[str]:
        """The command line of the interpreter."""
        what = {"file": [], "module": ["-m"], "code": ["-c"]}[self.kind]
        return [self.interpreter, *self.flags, *what, self.target, *self.arguments]


def parse_python_command(command: Sequence[str], environment: Mapping[str, str]) -> PythonCommand | None:
    """Return the Python program that a command runs, or None for other commands.

    A command that starts with `uv run` is asked for its interpreter, which prepares its environment.
    """
    words, path = list(command), environment.get("PATH")
    if Path(words[0]).name == "uv" and words[1:2] == ["run"]:
        return _uv_command(words, environment)
    found = shutil.which(words[0], path=path)
    if found is None:
        return None
    if _INTERPRETER.fullmatch(Path(words[0]).name):
        return _interpreter_command(found, words[1:])
    return _script_command(found, words[1:], path)


def _interpreter_command(interpreter: str, words: Sequence[str]) -> PythonCommand | None:
    """Parse the arguments of the interpreter, as Python does."""
    flags: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-") or word == "-":
            if not Path(word).is_file() or word.endswith((".pyc", ".pyz", ".zip")):
                return None
            return PythonCommand(
                interpreter=interpreter, flags=tuple(flags), kind="file", target=word, arguments=tuple(rest)
            )
        parsed = _parse_flag(word, rest)
        if parsed is None:
            return None
        kept, kind, target = parsed
        flags += kept
        if kind is not None:
            return PythonCommand(
                interpreter=interpreter, flags=tuple(flags), kind=kind, target=target, arguments=tuple(rest)
            )
    return None


def _parse_flag(word: str, rest: list[str]) -> tuple[list[str], Literal["module", "code"] | None, str] | None:
    """Return the flags of a word like `-Xdev` or `-um`, and the module or code at its end, or None if unknown."""
    if word.startswith("--"):
        return None
    for position, letter in enumerate(word[1:], 1):
        before = [] if position == 1 else [word[:position]]
        value = word[position + 1 :]
        if letter in ("c", "m"):
            if not value and not rest:
                return None
            return before, "module" if letter == "m" else "code", value or rest.pop(0)
        if letter in _VALUE_FLAGS:
            return ([word] if value else [word, rest.pop(0)]) if value or rest else [word], None, ""
        if letter not in _PLAIN_FLAGS or letter in _ENDING_FLAGS:
            return None
    return [word], None, ""


def _script_command(script: str, arguments: Sequence[str], path: str | None) -> PythonCommand | None:
    """Return the program of a script whose first line names Python, as installed by environments."""
    words = script_interpreter(script)
    found = shutil.which(words[0], path=path) if words else None
    if found is None or not _INTERPRETER.fullmatch(Path(words[0]).name):
        return None
    return _interpreter_command(found, [*words[1:], script, *arguments])


def script_interpreter(script: str) -> list[str]:
    """Return the command in the first line of a script, without `env`, or ""."""
    try:
        with Path(script).open("rb") as file:
            lines = [file.readline(4096).rstrip(b"\n") for _ in range(2)]
    except OSError:
        return []
    words = _shebang_words(lines)
    if words and Path(words[0]).name == "env":
        words = words[2:] if words[1:2] == ["-S"] else words[1:]
    return words


def _shebang_words(lines: Sequence[bytes]) -> list[str]:
    if lines[0] == b"#!/bin/sh" and (match := _SHELL_SHEBANG.match(lines[1])):  # for paths that are too long
        return [os.fsdecode(match[1])]
    return os.fsdecode(lines[0][2:]).split() if lines[0].startswith(b"#!") else []


def _uv_command(words: list[str], environment: Mapping[str, str]) -> PythonCommand | None:
    """Return the program that `uv run` runs, by the interpreter that it would use."""
    options, rest = _split_uv_options(words[2:])
    is_module = rest[:1] in (["-m"], ["--module"])
    if not rest or (is_module and len(rest) < 2) or "--script" in options or _has_own_dependencies(rest[0]):
        return None
    probe = subprocess.run(  # noqa: S603 - it is the user's own command
        [*words[:2], *options, "python", "-c", UV_PROBE],
        env=dict(environment),
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        timeout=PROBE_S,
    )
    if probe.returncode:
        return None
    interpreter, added = json.loads(probe.stdout.splitlines()[-1])
    if is_module or rest[0].endswith(".py"):
        inner = _interpreter_command(interpreter, ["-m", *rest[1:]] if is_module else rest)
    elif _INTERPRETER.fullmatch(Path(rest[0]).name):
        inner = _interpreter_command(interpreter, rest[1:])
    else:
        inner = parse_python_command(rest, dict(environment) | added)
    differing = {name: value for name, value in added.items() if environment.get(name) != value}
    return None if inner is None else replace(inner, environment=differing)


def _has_own_dependencies(file: str) -> bool:
    """Return whether a script declares its dependencies: uv runs it in a separate environment."""
    return file.endswith(".py") and Path(file).is_file() and b"# /// script" in Path(file).read_bytes()


def _split_uv_options(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the options of `uv run`, and the command after them."""
    position = 0
    while position < len(words) and words[position].startswith("-") and words[position] not in ("-m", "--module"):
        if words[position] == "--":
            return list(words[:position]), list(words[position + 1 :])
        position += 2 if words[position] in _UV_VALUES else 1
    return list(words[:position]), list(words[position:])
