"""Runs Node programs in virtual time: a file that Node preloads puts them on the clock of the server."""

from __future__ import annotations

import json
import re
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from offbook.clock import SYSTEM_CLOCK
from offbook.explore.observers.wire import WireObserver
from offbook.subjects.program.launch import LaunchedRun, ProgramLife, RunPlace, VirtualLife, address_of
from offbook.subjects.program.process import Patience, ProgramExit, ProgramProcess, RunClock
from offbook.subjects.program.python_command import script_interpreter
from offbook.wire.calls import ignore_request
from offbook.wire.request import HttpRequest
from offbook.wire.server.session_clock import ResponseClock, SessionClock
from offbook.wire.server.wire_server import WireServer

GUEST = Path(__file__).parent / "guest" / "node_time.cjs"
OPTIONS, CLOCK, COMPILE_CACHE = "NODE_OPTIONS", "OFFBOOK_NODE_CLOCK", "NODE_COMPILE_CACHE"
_NODE = re.compile(r"node(js)?(-?\d+)?")


def is_node_command(command: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Return whether a command runs Node, or a script whose first line names Node, on Linux."""
    found = shutil.which(command[0], path=environment.get("PATH"))
    if found is None or not sys.platform.startswith("linux"):
        return False
    words = [command[0]] if _NODE.fullmatch(Path(command[0]).name) else script_interpreter(found)
    return bool(words) and _NODE.fullmatch(Path(words[0]).name) is not None


class NodeLauncher:
    """Starts a Node program anew for each run, in virtual time. What Node 22 compiles is kept for all runs.

    `patience` judges real time, for a program that works without an end.
    """

    def __init__(self, server: WireServer, patience: Patience) -> None:
        self.server, self.patience, self.virtual_patience = server, patience, patience.copy()
        self._numbers = count(1)
        self._compiled = tempfile.TemporaryDirectory(prefix="offbook-")

    @contextmanager
    def place(self) -> Iterator[RunPlace]:
        with tempfile.TemporaryDirectory(prefix="offbook-") as folder:
            yield RunPlace(f"node-{next(self._numbers)}", folder)

    def launch(
        self, place: RunPlace, command: Sequence[str], environment: Mapping[str, str], *, is_clean: bool
    ) -> LaunchedRun:
        return _NodeRun(self, command, environment)

    def close(self) -> None:
        self._compiled.cleanup()

    @property
    def compiled(self) -> str:
        """The folder for what Node has compiled."""
        return self._compiled.name


class _NodeRun:
    def __init__(self, launcher: NodeLauncher, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._launcher, self._command, self._environment = launcher, command, environment
        self._clock = SessionClock()
        self.response_clock: ResponseClock = self._clock
        self.note_request: Callable[[HttpRequest], object] = ignore_request

    def now_s(self) -> float:
        return self._clock.stamp_s()

    def start(self) -> ProgramLife:
        return _NodeLife(self._launcher, self._clock, self._process)

    def _process(self, link: int) -> ProgramProcess:
        """Return the process that talks to its clock by the file `link`."""
        given = {name: self._environment.get(name) for name in (OPTIONS, COMPILE_CACHE)}
        address, port = address_of(self._launcher.server)
        settings = {
            "link": link,
            "address": address,
            "port": port,
            "now_s": self._clock.now_s,
            "environment": given,
        }
        own = {
            OPTIONS: f"{given[OPTIONS] or ''} --require {json.dumps(str(GUEST))}".strip(),
            COMPILE_CACHE: given[COMPILE_CACHE] or self._launcher.compiled,
            CLOCK: json.dumps(settings),
        }
        return ProgramProcess(self._command, {**self._environment, **own}, [link])


class _NodeLife(VirtualLife):
    """A process of Node whose waits are on the clock."""

    def __init__(
        self, launcher: NodeLauncher, clock: SessionClock, process_on: Callable[[int], ProgramProcess]
    ) -> None:
        self._launcher = launcher
        self._ours, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._program = process_on(self._theirs.fileno())
        super().__init__(self._program, clock, launcher.patience)

    def run(self, observer: WireObserver) -> ProgramExit:
        launcher = self._launcher
        self._run_clock = RunClock(launcher.virtual_patience, observer, now_s=self._clock.time)
        started_s = self._clock.last_message_s = SYSTEM_CLOCK.monotonic_s()
        launcher.server.call_soon(lambda: self._clock.open(self._ours, self))
        try:
            with self._theirs:
                ended = self._program.run(self._left_s)
        finally:
            launcher.server.call_soon(self._clock.close)
        if ended.code is not None:
            launcher.patience.note(SYSTEM_CLOCK.monotonic_s() - started_s)
            launcher.virtual_patience.note(self._run_clock.took_s)
        return ended
