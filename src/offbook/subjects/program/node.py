"""Runs Node programs in virtual time: a file that Node preloads puts them on the clock of the server."""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from offbook.subjects.program.launch import LaunchedRun, RunPlace, VirtualLife, address_of
from offbook.subjects.program.process import Patience, ProgramExit, ProgramProcess
from offbook.subjects.program.python_command import script_interpreter
from offbook.wire.server.session_clock import SessionClock
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
    """Starts a Node program anew for each run, in virtual time. What Node 22 compiles is kept for all runs."""

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
        clock, cache = SessionClock(), environment.get(COMPILE_CACHE) or self._compiled.name
        return LaunchedRun(
            start=lambda: _NodeLife(self, clock, command, environment, cache),
            now_s=clock.stamp_s,
            response_clock=clock,
        )

    def close(self) -> None:
        self._compiled.cleanup()


class _NodeLife(VirtualLife):
    """A process of Node whose waits are on the clock."""

    def __init__(
        self,
        launcher: NodeLauncher,
        clock: SessionClock,
        command: Sequence[str],
        environment: Mapping[str, str],
        compile_cache: str,
    ) -> None:
        super().__init__(launcher, clock)
        given = {name: environment.get(name) for name in (OPTIONS, COMPILE_CACHE)}
        address, port = address_of(launcher.server)
        link = self._link.fileno()
        settings = {"link": link, "address": address, "port": port, "now_s": clock.now_s, "environment": given}
        own = {
            OPTIONS: f"{given[OPTIONS] or ''} --require {json.dumps(str(GUEST))}".strip(),
            COMPILE_CACHE: compile_cache,
            CLOCK: json.dumps(settings),
        }
        self._process = self._program = ProgramProcess(command, {**environment, **own}, [link])

    def _run_process(self) -> ProgramExit:
        with self._link:
            return self._program.run(self._left_s)
