"""The built-in tool that runs allowed commands without a shell, in a process group of their own."""

from __future__ import annotations

import asyncio
import os
import re
import selectors
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from offbook.errors import ToolFailureError, ToolRefusalError
from offbook.tools import ToolDef, tool_of
from offbook.tools.dispatch import DAEMON_THREADS

COMMAND_PATTERN = r"^[A-Za-z0-9_][A-Za-z0-9_.+-]*$"
"""The bare name of a command, without any path."""
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
    """The words of a command line, quotes and backslashes as in a shell.

    Raises:
        ValueError: it has what only a shell could act on, or a quote without end; says what to do.
    """
    found: list[list[str]] = []
    line, at, is_inside = line.strip(), 0, False
    while at < len(line):
        piece = _PIECE.match(line, at)
        if piece is None:
            raise ValueError(_refusal(line[at]))
        if piece["space"] is None:
            if not is_inside:
                found.append([])
            found[-1].append(_word_text(piece))
        at, is_inside = piece.end(), piece["space"] is None
    return ["".join(pieces) for pieces in found]


def _word_text(piece: re.Match[str]) -> str:
    """What a piece of a word stands for."""
    quoted = piece["double"]
    if quoted is None:
        return next(text for text in piece.groups() if text is not None)
    if expanded := _EXPANDED.match(quoted):
        raise ValueError(_refusal(expanded[1]))
    return _ESCAPED.sub(lambda escape: escape[1] or "", quoted)


def _refusal(sign: str) -> str:
    if sign in OPERATORS:
        return f"there is no shell, so {sign!r} does nothing; run one command at a time"
    if sign in "'\"\\":
        return f"after {sign} the command line does not go on as it should"
    return f"there is no shell, so {sign!r} stands for nothing else; put it in single quotes"


PIECE_BYTES = 65536


class CapturedOutput:
    """The first `limit` bytes of what a program wrote, and how many more there were."""

    def __init__(self, limit: int) -> None:
        self.data, self.dropped, self._limit = b"", 0, limit

    def add(self, piece: bytes) -> None:
        kept = piece[: self._limit - len(self.data)]
        self.data += kept
        self.dropped += len(piece) - len(kept)

    def __str__(self) -> str:
        text = self.data.decode("utf-8", "replace")
        return f"{text}\n[{self.dropped} more bytes]" if self.dropped else text


class ChildProcess:
    """A running program, in a process group of its own and without input.

    Args:
        command: the program's path and its arguments.
        folder: where it runs.
        environment: all that it sees of ours.
        limit: how many bytes of each of its outputs are kept.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self, command: Sequence[str], *, folder: Path, environment: Mapping[str, str], limit: int) -> None:
        self.stdout, self.stderr = CapturedOutput(limit), CapturedOutput(limit)
        self._process = subprocess.Popen(  # noqa: S603 - which programs may run is the caller's to say
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def wait(self) -> int:
        """Gather the output until it ends, and give the exit code; that of a signal is negative."""
        with self._process:
            self._gather()
            exit_code = self._process.wait()
        self._kill_group()
        return exit_code

    def kill(self) -> None:
        """End the program, and all that it has started, at once. One that has ended is left alone."""
        if self._process.returncode is None:
            self._kill_group()

    def _kill_group(self) -> None:
        with suppress(ProcessLookupError, PermissionError):  # nothing is left of it
            os.killpg(self._process.pid, signal.SIGKILL)

    def _gather(self) -> None:
        with selectors.DefaultSelector() as open_pipes:
            for pipe, output in ((self._process.stdout, self.stdout), (self._process.stderr, self.stderr)):
                assert pipe is not None
                open_pipes.register(pipe, selectors.EVENT_READ, output)
            while open_pipes.get_map():
                for key, _ in open_pipes.select():
                    piece = os.read(key.fd, PIECE_BYTES)
                    key.data.add(piece)
                    if not piece:
                        open_pipes.unregister(key.fileobj)


MAX_OUTPUT_BYTES = 64_000


def shell(name: str, *, allow: Sequence[str], folder: Path, timeout_s: float) -> ToolDef:
    """A tool `name` that runs the commands in `allow`, in `folder`, each within `timeout_s`."""
    description = (
        f"Run a command, without a shell: no pipes, redirections, variables or wildcards. "
        f"Commands that you may run: {', '.join(allow)}."
    )
    commands = CommandRunner(allow, folder=folder, tool=name)
    return tool_of(commands.run, name=name, description=description, timeout_s=timeout_s, side_effect=True)


class CommandRunner:
    """Runs the commands in `allow`, found on the PATH, in `folder`.

    They see no other variables of ours than PATH, HOME and LANG, and no input. Of each output 64 KB are
    kept. Whoever stops waiting, stops the command and what it has started.
    """

    def __init__(self, allow: Sequence[str], *, folder: Path, tool: str) -> None:
        self._allow, self._folder, self._tool = tuple(allow), folder, tool

    async def run(self, command: str) -> str:
        """What the command wrote, and its exit code if that is not 0.

        Args:
            command: the command with its arguments, quoted as in a shell, like wc -l 'my notes.txt'

        Raises:
            ToolRefusalError: the command is not allowed, or needs a shell.
            ToolFailureError: it cannot be started.
        """
        process = self._started(self._words(command))
        try:
            loop = asyncio.get_running_loop()
            return _output_text(process, await loop.run_in_executor(DAEMON_THREADS, process.wait))
        finally:
            process.kill()

    def _words(self, command: str) -> list[str]:
        try:
            found = split_command(command)
        except ValueError as error:
            raise ToolRefusalError(str(error), tool=self._tool) from None
        if not found or found[0] not in self._allow:
            asked = repr(found[0]) if found else "nothing"
            raise ToolRefusalError(f"{asked} is not allowed; allowed are: {', '.join(self._allow)}", tool=self._tool)
        return found

    def _started(self, found: list[str]) -> ChildProcess:
        environment = _command_environment()
        program = shutil.which(found[0], path=environment["PATH"])
        if program is None:
            raise ToolFailureError(f"{found[0]} is not installed", tool=self._tool)
        try:
            return ChildProcess(
                [program, *found[1:]], folder=self._folder, environment=environment, limit=MAX_OUTPUT_BYTES
            )
        except (OSError, ValueError) as error:
            raise ToolFailureError(f"{found[0]} cannot be run: {error}", tool=self._tool) from None


def _command_environment() -> dict[str, str]:
    """What a command sees of our environment. Places on the PATH that depend on where it runs are left out."""
    seen = {name: os.environ[name] for name in ("HOME", "LANG") if name in os.environ}
    places = [place for place in os.environ.get("PATH", os.defpath).split(os.pathsep) if Path(place).is_absolute()]
    return seen | {"PATH": os.pathsep.join(places)}


def _output_text(process: ChildProcess, exit_code: int) -> str:
    parts = [f"[exit code {exit_code}]" if exit_code else "", str(process.stdout)]
    if process.stderr.data:
        parts.append(f"[stderr]\n{process.stderr}")
    return "\n".join(part.rstrip("\n") for part in parts if part)
