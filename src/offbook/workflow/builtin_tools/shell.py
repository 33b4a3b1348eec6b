"""The built-in tool that runs allowed commands without a shell, in a process group of their own."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from offbook.child_process import CapturedOutput, ChildProcess
from offbook.errors import ToolFailureError, ToolRefusalError
from offbook.tools import ToolDef, tool_of
from offbook.tools.dispatch import DAEMON_THREADS

OPERATORS = ";|&<>()\n"
_PIECE = re.compile(
    r"""(?P<space>[ \t\r]+)"""
    r"""|'(?P<single>[^']*)'"""
    r'''|"(?P<double>(?:[^"\\]|\\.)*)"'''
    r"""|\\(?P<escaped>.)"""
    r"""|(?P<plain>[^ \t\r'"\\;|&<>()\n$`*?]+)""",
    re.DOTALL,
)
_EXPANDED = re.compile(r"(?:[^\\$`]|\\.)*([$`])", re.DOTALL)
_ESCAPED = re.compile(r'\\([\\"$`])|\\\n')


def split_command(line: str) -> list[str]:
    """Split a command line into words, with quotes and backslashes as in a shell.

    Raises:
        ValueError: the line needs a shell, or a quote is not closed; the message says what to do.
    """
    words: list[list[str]] = []
    line, at, is_inside = line.strip(), 0, False
    while at < len(line):
        piece = _PIECE.match(line, at)
        if piece is None:
            raise ValueError(_refusal(line[at]))
        if piece["space"] is None:
            if not is_inside:
                words.append([])
            words[-1].append(_word_text(piece))
        at, is_inside = piece.end(), piece["space"] is None
    return ["".join(pieces) for pieces in words]


def _word_text(piece: re.Match[str]) -> str:
    """Return the text of a piece of a word, without its quotes and escapes."""
    quoted = piece["double"]
    if quoted is None:
        return next(text for text in piece.groups() if text is not None)
    if expanded := _EXPANDED.match(quoted):
        raise ValueError(_refusal(expanded[1]))
    return _ESCAPED.sub(lambda escape: escape[1] or "", quoted)


def _refusal(sign: str) -> str:
    if sign in OPERATORS:
        return f"there is no shell, so {sign!r} has no effect; run one command at a time"
    if sign in "'\"\\":
        return f"the {sign} in the command line is not closed"
    return f"there is no shell, so {sign!r} is not expanded; put it in single quotes"


MAX_OUTPUT_BYTES = 64_000


def shell(name: str, *, allow: Sequence[str], folder: Path, timeout_s: float) -> ToolDef:
    """Return a tool `name` that runs the commands in `allow` in `folder`, each for at most `timeout_s`."""
    description = (
        f"Run a command, without a shell: no pipes, redirections, variables or wildcards. "
        f"Commands that you may run: {', '.join(allow)}."
    )
    commands = CommandRunner(allow, folder=folder, tool=name)
    return tool_of(commands.run, name=name, description=description, timeout_s=timeout_s, side_effect=True)


class CommandRunner:
    """Runs the commands in `allow`, found on the PATH, in `folder`.

    Commands get no input, and no environment variables but PATH, HOME and LANG. The first 64 KB of each output are
    returned. Cancelling `run` kills the command and every process that it started.
    """

    def __init__(self, allow: Sequence[str], *, folder: Path, tool: str) -> None:
        self._allow, self._folder, self._tool = tuple(allow), folder, tool

    async def run(self, command: str) -> str:
        """Run the command and return its output, with the exit code if that is not 0.

        Args:
            command: the command with its arguments, quoted as in a shell, like wc -l 'my notes.txt'

        Raises:
            ToolRefusalError: the command is not allowed, or needs a shell.
            ToolFailureError: the command cannot be started.
        """
        process = self._start(self._split(command))
        try:
            loop = asyncio.get_running_loop()
            return _output_text(process, await loop.run_in_executor(DAEMON_THREADS, process.wait))
        finally:
            process.kill()

    def _split(self, command: str) -> list[str]:
        try:
            words = split_command(command)
        except ValueError as error:
            raise ToolRefusalError(str(error), tool=self._tool) from None
        if not words or words[0] not in self._allow:
            name = repr(words[0]) if words else "an empty command"
            raise ToolRefusalError(f"{name} is not allowed; allowed: {', '.join(self._allow)}", tool=self._tool)
        return words

    def _start(self, words: list[str]) -> ChildProcess:
        environment = _command_environment()
        program = shutil.which(words[0], path=environment["PATH"])
        if program is None:
            raise ToolFailureError(f"{words[0]} is not installed", tool=self._tool)
        try:
            return ChildProcess(
                [program, *words[1:]], environment=environment, limit_bytes=MAX_OUTPUT_BYTES, folder=self._folder
            )
        except (OSError, ValueError) as error:
            raise ToolFailureError(f"{words[0]} cannot be run: {error}", tool=self._tool) from None


def _command_environment() -> dict[str, str]:
    """Return the environment of commands; relative entries of PATH are left out."""
    variables = {name: os.environ[name] for name in ("HOME", "LANG") if name in os.environ}
    folders = [folder for folder in os.environ.get("PATH", os.defpath).split(os.pathsep) if Path(folder).is_absolute()]
    return variables | {"PATH": os.pathsep.join(folders)}


def _output_text(process: ChildProcess, exit_code: int) -> str:
    parts = [f"[exit code {exit_code}]" if exit_code else "", _show_output(process.stdout)]
    if process.stderr.data:
        parts.append(f"[stderr]\n{_show_output(process.stderr)}")
    return "\n".join(part.rstrip("\n") for part in parts if part)


def _show_output(output: CapturedOutput) -> str:
    return f"{output.text}\n[{output.dropped_bytes} more bytes]" if output.dropped_bytes else output.text
