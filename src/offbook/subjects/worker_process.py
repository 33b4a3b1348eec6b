"""A worker as whoever employs it sees it."""

from __future__ import annotations

import select
import subprocess
import sys
from contextlib import suppress
from typing import IO

import msgspec

from offbook.errors import InputError
from offbook.explore.run import Ending, Run
from offbook.faults import PlannedFault
from offbook.subjects.worker_lines import Part, Ready, Refused, Said

START_LIMIT_S = 120.0
"""How long a worker may take to make its clean run."""


class WorkerProcess:
    """A process of its own that runs the cases of a subject, one after the other.

    A case during which the process ends has crashed, and one that takes longer than `limit_s` has hung; whoever asks
    again starts another process.

    Raises:
        InputError: from `run`: the worker cannot run its subject.
    """

    def __init__(self, part: Part, *, limit_s: float) -> None:
        self._part, self._limit_s = part, limit_s
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, lines: tuple[PlannedFault, ...]) -> Run:
        """What a run with these faults did."""
        process = self._process or self._start()
        said = self._asked(process, lines)
        if said is not None:
            return said
        code, is_late = process.poll(), process.poll() is None
        self.end()
        struck = tuple(str(line) for line in lines)
        if is_late:
            return Run(hung=f"its process had to be ended after {self._limit_s:g} s", struck=struck)
        return Run(error=Ending("undeclared", "ProcessEnded", _told(code)), struck=struck)

    def end(self) -> None:
        """End the process, if there is one. Safe to call from any thread."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                _close(pipe)

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-P", "-m", "offbook.subjects.worker"]
        process = self._process = subprocess.Popen(  # noqa: S603 - it is this very Python
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0
        )
        said = self._said(process, self._part, START_LIMIT_S)
        if isinstance(said, Ready):
            return process
        self.end()
        if isinstance(said, Refused):
            raise InputError(said.reason, source=said.source, place=said.place, hint=said.hint)
        raise InputError("a worker ended before its first case", hint="explore with --workers 1 to see why")

    def _asked(self, process: subprocess.Popen[bytes], lines: tuple[PlannedFault, ...]) -> Run | None:
        """What became of a case, or None if the process has ended, or does not answer."""
        match self._said(process, lines, self._limit_s):
            case Refused(reason, source, place, hint):
                self.end()
                raise InputError(reason, source=source, place=place, hint=hint)
            case Ready() | None:
                return None
            case done:
                return done.run

    def _said(self, process: subprocess.Popen[bytes], told: object, limit_s: float) -> Said | None:
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError):
            process.stdin.write(msgspec.json.encode(told) + b"\n")
            process.stdin.flush()
        if not select.select([process.stdout], [], [], limit_s)[0]:
            return None
        line = process.stdout.readline()
        if not line.endswith(b"\n"):
            process.wait()
            return None
        said: Said = msgspec.json.decode(line, type=Said)
        return said


def _told(code: int | None) -> str:
    if code is not None and code < 0:
        return f"signal {-code} ended the process"
    return f"the process ended with exit status {code}"


def _close(pipe: IO[bytes] | None) -> None:
    if pipe is not None:
        with suppress(OSError):
            pipe.close()
