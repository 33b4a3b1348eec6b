"""A program that runs beside us, and nothing of which is left behind."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

PIECE_BYTES = 65536


class Output:
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
        self.stdout, self.stderr = Output(limit), Output(limit)
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
