"""The built-in tool that runs certain commands."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from offbook.errors import ToolFailureError, ToolRefusalError
from offbook.tools import ToolDef, tool_of
from offbook.tools.daemon_threads import DAEMON_THREADS
from offbook.workflow.builtin_tools.child_process import ChildProcess
from offbook.workflow.builtin_tools.command_line import words

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
            return _told(process, await loop.run_in_executor(DAEMON_THREADS, process.wait))
        finally:
            process.kill()

    def _words(self, command: str) -> list[str]:
        try:
            found = words(command)
        except ValueError as error:
            raise ToolRefusalError(str(error), tool=self._tool) from None
        if not found or found[0] not in self._allow:
            asked = repr(found[0]) if found else "nothing"
            raise ToolRefusalError(f"{asked} is not allowed; allowed are: {', '.join(self._allow)}", tool=self._tool)
        return found

    def _started(self, found: list[str]) -> ChildProcess:
        environment = _environment()
        program = shutil.which(found[0], path=environment["PATH"])
        if program is None:
            raise ToolFailureError(f"{found[0]} is not installed", tool=self._tool)
        try:
            return ChildProcess(
                [program, *found[1:]], folder=self._folder, environment=environment, limit=MAX_OUTPUT_BYTES
            )
        except (OSError, ValueError) as error:
            raise ToolFailureError(f"{found[0]} cannot be run: {error}", tool=self._tool) from None


def _environment() -> dict[str, str]:
    """What a command sees of our environment. Places on the PATH that depend on where it runs are left out."""
    seen = {name: os.environ[name] for name in ("HOME", "LANG") if name in os.environ}
    places = [place for place in os.environ.get("PATH", os.defpath).split(os.pathsep) if Path(place).is_absolute()]
    return seen | {"PATH": os.pathsep.join(places)}


def _told(process: ChildProcess, exit_code: int) -> str:
    parts = [f"[exit code {exit_code}]" if exit_code else "", str(process.stdout)]
    if process.stderr.data:
        parts.append(f"[stderr]\n{process.stderr}")
    return "\n".join(part.rstrip("\n") for part in parts if part)
