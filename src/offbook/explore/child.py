"""A program that is run with its output kept, and ended when its time is up."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from threading import Thread
from typing import IO

from msgspec import Struct

from offbook.errors import InputError

MAX_KEPT_BYTES = 1024 * 1024
"""How much of each output is kept: the beginning."""

LAST_WORDS_S = 1.0
"""How long the outputs are listened to when the program has ended: something that it left behind may hold them."""

_READ_BYTES = 64 * 1024


class Ended(Struct, frozen=True):
    """How a program ended: its exit code, minus N if signal N has ended it; None if it was ended from here."""

    code: int | None
    stdout: str
    stderr: str


class Child:
    """A program without input, in a process group of its own: what it started ends with it."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._command, self._environment = command, environment
        self._process: subprocess.Popen[bytes] | None = None
        self._is_unwanted = False

    def run(self, deadline_s: float) -> Ended:
        """Run it to its end, or for `deadline_s` at most.

        Raises:
            InputError: it cannot be started.
        """
        process = self._process = self._started()
        if self._is_unwanted:
            _end_group(process.pid)
        outputs = [_Output(stream) for stream in (process.stdout, process.stderr) if stream is not None]
        waiting = Thread(target=process.wait, daemon=True)
        waiting.start()
        try:
            waiting.join(deadline_s)
            is_late = waiting.is_alive()
        finally:
            _end_group(process.pid)
        waiting.join()
        stdout, stderr = [output.text() for output in outputs]
        return Ended(None if is_late or self._is_unwanted else process.returncode, stdout, stderr)

    def kill(self) -> None:
        """End it now, or when it is started. Safe to call from any thread, and when it has ended."""
        self._is_unwanted = True
        if self._process is not None:
            _end_group(self._process.pid)

    def _started(self) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(  # noqa: S603 - it is what the user wants
                self._command,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            reason = "there is no such program" if isinstance(error, FileNotFoundError) else error.strerror
            raise InputError(f"it cannot be started: {reason}", source=self._command[0]) from None


class _Output:
    """Reads an output to its end, so that the program never waits for that, and keeps its beginning."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self._kept = stream, bytearray()
        self._reading = Thread(target=self._read, daemon=True)
        self._reading.start()

    def text(self) -> str:
        """What was kept, when the program has ended."""
        self._reading.join(LAST_WORDS_S)
        return bytes(self._kept).decode("utf-8", "replace")

    def _read(self) -> None:
        with self._stream:
            while data := os.read(self._stream.fileno(), _READ_BYTES):
                self._kept += data[: MAX_KEPT_BYTES - len(self._kept)]


def _end_group(number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(number, signal.SIGKILL)
