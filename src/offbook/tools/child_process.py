"""Runs a program in its own process group, with bounded output, and leaves no process running."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import IO

from offbook.text import did_you_mean, did_you_mean_file, printable_line, shorten

READ_BYTES = 64 * 1024
OUTPUT_GRACE_S = 1.0
"""The time for which `end` still reads after the program ended, because a process that left the group may hold its
pipes open.
"""


INTERPRETERS = {".py": "python", ".js": "node", ".cjs": "node", ".mjs": "node", ".sh": "sh"}
"""The interpreters of scripts named like programs, by suffix."""


def program_hint(name: str) -> str:
    """Return the command for a program that cannot be started: its interpreter, or the likely name.

    Names are those of programs on PATH, and of files in the folder of a path. It is empty if none is similar.
    """
    program, *arguments = name.split()[:2] or [""]
    if arguments and shutil.which(program):
        return f"leave out the quotes around the command: … -- {name}"
    file = Path(name)
    interpreter = INTERPRETERS.get(file.suffix)
    if interpreter is None and file.name == name:
        # Programs on PATH that are about as long, and begin or end alike.
        found = set[str]()
        for folder in os.get_exec_path():
            with suppress(OSError), os.scandir(folder) as entries:
                found.update(entry.name for entry in entries if abs(len(entry.name) - len(name)) <= 2)
        return did_you_mean(name, {each for each in found if each[:1] == name[:1] or each[-1:] == name[-1:]})
    near = did_you_mean_file(name)
    is_other = interpreter is None or near.startswith("did you mean")
    return near if is_other else f"type: … -- {interpreter} {shlex.quote(name)}"


def kill_group(leader: int, number: signal.Signals | None = None) -> None:
    """Send a signal, by default SIGKILL, to a process group. Does nothing if nothing is left of the group."""
    with suppress(ProcessLookupError, PermissionError):  # macOS reports a group of ended processes as not permitted
        os.killpg(leader, signal.SIGKILL if number is None else number)


ENDING_GRACE_S, LOOK_S = 0.5, 0.02
MAX_NAMED, MAX_COMMAND_CHARS = 3, 60


def describe_left_running(mark: str) -> str:
    """Name the running processes with a mark in their environment, or return "".

    They have left the program's group, which is killed at its end. Without `/proc`, the result is always "".
    """
    until_s = time.monotonic() + ENDING_GRACE_S
    while (found := _marked(mark.encode())) and time.monotonic() < until_s:
        time.sleep(LOOK_S)  # helpers of a program notice its end a moment later
    named = [f"{shorten(command, MAX_COMMAND_CHARS)} ({pid})" for pid, command in found[:MAX_NAMED]]
    more = f" and {len(found) - MAX_NAMED} more" if len(found) > MAX_NAMED else ""
    return f"still running after the program has ended: {', '.join(named)}{more}" if named else ""


def _marked(mark: bytes) -> list[tuple[str, str]]:
    """Return the processes with a mark in their environment: their numbers and commands."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has just ended, or is another user's
            if mark in (folder / "environ").read_bytes() and folder.name != str(os.getpid()):
                command = (folder / "cmdline").read_bytes().rstrip(b"\0").replace(b"\0", b" ").decode(errors="replace")
                found.append((folder.name, printable_line(command)))
    return found


class CapturedOutput:
    """The first `limit_bytes` of a program's output, and the number of further bytes.

    A thread reads the pipe to its end: the program never blocks on a full pipe.
    """

    def __init__(self, pipe: IO[bytes], limit_bytes: int) -> None:
        self.data, self.dropped_bytes = bytearray(), 0
        self._pipe, self._limit_bytes = pipe, limit_bytes
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def text(self) -> str:
        """The captured bytes as UTF-8, with replacement characters for invalid ones."""
        return bytes(self.data).decode("utf-8", "replace")

    def join(self, timeout_s: float | None = None) -> None:
        """Wait until the pipe is closed, or for `timeout_s`."""
        self._reader.join(timeout_s)

    def _read(self) -> None:
        with self._pipe:
            while piece := os.read(self._pipe.fileno(), READ_BYTES):
                captured = piece[: self._limit_bytes - len(self.data)]
                self.data += captured
                self.dropped_bytes += len(piece) - len(captured)


class ChildProcess:
    """A running program without input, in its own session and process group.

    Args:
        command: the program and its arguments.
        environment: all of its environment variables.
        limit_bytes: the number of captured bytes of each output.
        folder: its working directory; by default ours.
        files: further open files that it inherits, by number.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        limit_bytes: int,
        folder: Path | None = None,
        files: Sequence[int] = (),
    ) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - which programs may run is the caller's decision
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            pass_fds=files,
        )
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._waiting: Thread | None = None
        self.stdout = CapturedOutput(self._process.stdout, limit_bytes)
        self.stderr = CapturedOutput(self._process.stderr, limit_bytes)

    def wait(self) -> int:
        """Wait until both outputs are closed and the program has ended, then kill the rest of its group.

        Returns the exit code, -N if signal N ended the program.
        """
        self.stdout.join()
        self.stderr.join()
        exit_code = self._process.wait()
        kill_group(self._process.pid)
        return exit_code

    def has_ended_within(self, timeout_s: float) -> bool:
        """Wait until the program has ended, or for `timeout_s`, and return whether it has. Its outputs may be open."""
        if self._waiting is None:
            self._waiting = Thread(target=self._process.wait, daemon=True)  # Popen.wait(timeout) would poll
            self._waiting.start()
        self._waiting.join(max(timeout_s, 0.0))
        return not self._waiting.is_alive()

    def end(self) -> int | None:
        """Kill the group of the program, and wait until it has ended.

        Returns the exit code, -N if signal N ended the program, and None if it was still running.
        """
        is_late = not self.has_ended_within(0.0)
        kill_group(self._process.pid)
        while not self.has_ended_within(OUTPUT_GRACE_S):
            kill_group(self._process.pid)
        self.stdout.join(OUTPUT_GRACE_S)
        self.stderr.join(OUTPUT_GRACE_S)
        return None if is_late else self._process.returncode

    def kill(self) -> None:
        """Kill the program and its group. Does nothing if it has ended; may be called from any thread."""
        if self._process.returncode is None:
            kill_group(self._process.pid)
