"""Starts the runs of a program: each from its interpreter, as a fork of a process that has loaded its libraries, or in
Node on the clock of the server."""

from __future__ import annotations

import json
import math
import re
import shutil
import socket
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from pathlib import Path
from threading import Event, Lock
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from offbook.clock import SYSTEM_CLOCK
from offbook.decoding import decode
from offbook.explore.observer import RunObserver, SentRequests
from offbook.private_folder import PrivateFolder
from offbook.subjects.program.fork_server import ForkedProgram, ForkServer, Libraries
from offbook.subjects.program.process import Patience, ProgramExit, ProgramProcess, RunClock, RunFiles
from offbook.subjects.program.python_command import PythonCommand, script_interpreter
from offbook.wire.server.session_clock import LOOP_CLOCK, ResponseClock, SessionClock
from offbook.wire.server.wire_server import WireServer

MAX_RESTARTS = 8
"""The maximum number of starts of a fork server, each without the libraries that turned out to be unfit."""
MODULES_S = 5.0


class RunPlace(Struct, frozen=True):
    """The place of a run: the name of its session, and an initially empty folder."""

    name: str
    folder: str


class Notices(Protocol):
    """Receives notes for the user about the start of a program's runs."""

    def warn(self, text: str) -> object:
        """Report that all further runs start anew."""

    def remark(self, text: str) -> object:
        """Report other reasons for longer runs."""


class NoNotices:
    """Ignores all notices."""

    def warn(self, text: str) -> None: ...

    def remark(self, text: str) -> None: ...


NO_NOTICES = NoNotices()


class ProgramLife(Protocol):
    """A process of a program, which can be killed from another thread, even before it has started.

    `hung` names what it waited for when its time ended.
    """

    hung: str

    def run(self, observer: RunObserver) -> ProgramExit:
        """Run it until it ends, or until its time limit.

        Raises:
            InputError: it cannot be started.
            UnfitProgramError: it cannot be forked.
        """
        ...

    def kill(self) -> None: ...


class LaunchedRun(Struct, frozen=True, kw_only=True):
    """A run of a program with one or several lives: `start` returns the next one.

    `now_s` returns the time of its calls, and `response_clock` is the clock of its answers. `sent` keeps the clean
    run's first requests.
    """

    start: Callable[[], ProgramLife]
    now_s: Callable[[], float]
    response_clock: ResponseClock
    sent: SentRequests | None = None


class ProgramLives:
    """The processes of one run of a program: one more than it has planned crashes.

    They are the host of the run, which reports its effects to `files`. The run is ended on the server's thread, while
    the program waits for it.
    """

    def __init__(self, start: Callable[[], ProgramLife], files: RunFiles) -> None:
        self._start, self._files, self.process = start, files, start()
        self.has_crashed = False

    def crash(self) -> None:
        """Kill the program, to be started again."""
        self.has_crashed = True
        self.process.kill()

    def check_crash(self) -> None:
        """Raise RuntimeError if the program was not killed, because its further actions do not follow a crash."""
        if not self.has_crashed:
            raise RuntimeError("the program was to crash, and was not killed")

    def end_endless(self, reason: str) -> None:
        self.process.kill()

    def end_hung(self, reason: str) -> None:
        self.process.kill()

    def count_reports(self) -> int:
        return self._files.count_effects()

    def restart(self) -> ProgramLife:
        """Return the process of the next life."""
        self.process, self.has_crashed = self._start(), False
        return self.process


class ProgramLauncher(Protocol):
    """Starts the runs of a program."""

    def place(self) -> AbstractContextManager[RunPlace]:
        """Return a place without another run, for a block."""
        ...

    def launch(
        self,
        place: RunPlace,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        is_clean: bool,
        working: Path | None,
    ) -> LaunchedRun:
        """Prepare a run of a command in an environment, here or in a `working` folder.

        Raises:
            UnfitProgramError: it cannot be forked.
        """
        ...

    def close(self) -> None: ...


class VirtualLauncher(Protocol):
    """A launcher of runs in virtual time: `patience` judges real time, for a program that works without an end."""

    server: WireServer
    patience: Patience
    virtual_patience: Patience


class FreshLauncher:
    """Starts the command anew for each run, in real time."""

    def __init__(self, patience: Patience) -> None:
        self.patience, self._numbers = patience, count(1)

    @contextmanager
    def place(self) -> Iterator[RunPlace]:
        with PrivateFolder() as folder:
            yield RunPlace(f"fresh-{next(self._numbers)}", folder)

    def launch(
        self,
        place: RunPlace,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        is_clean: bool,
        working: Path | None,
    ) -> LaunchedRun:
        return LaunchedRun(
            start=lambda: _FreshLife(ProgramProcess(command, environment, folder=working), self.patience),
            now_s=SYSTEM_CLOCK.monotonic_s,
            response_clock=LOOP_CLOCK,
        )

    def close(self) -> None:
        """Do nothing: nothing is left."""


class _FreshLife:
    def __init__(self, process: ProgramProcess, patience: Patience) -> None:
        self.hung = ""
        self._process, self.patience = process, patience

    def run(self, observer: RunObserver) -> ProgramExit:
        clock = RunClock(self.patience, observer)
        ended = self._process.run(clock.left_s)
        if ended.code is not None:
            self.patience.note(clock.took_s)
        self.hung = clock.hung
        return ended

    def kill(self) -> None:
        self._process.kill()


class ForkLauncher:
    """Runs a Python program as forks of a fork server, in virtual time. Each place has its own server.

    The session, the folder and so the environment of a place are equal in all runs there. The clean run is a fork of a
    process without loaded libraries; those that it loads from outside the program's own folder are loaded for the
    others. If it `forks_late` but cannot, it says so once.
    """

    def __init__(
        self,
        program: PythonCommand,
        server: WireServer,
        patience: Patience,
        *,
        forks_late: bool = False,
        notices: Notices = NO_NOTICES,
    ) -> None:
        self._program, self.server, self.patience, self._forks_late = program, server, patience, forks_late
        self._notices, self._is_early = notices, False
        self.virtual_patience = patience.copy()
        self._libraries: Libraries | None = None
        self._sent = SentRequests()
        self._unfit = set[str]()
        self._lock = Lock()
        self._numbers = count(1)
        self._free: list[_ForkPlace] = []
        self._places: dict[str, _ForkPlace] = {}

    @contextmanager
    def place(self) -> Iterator[RunPlace]:
        with self._lock:
            taken = self._free.pop() if self._free else _ForkPlace(f"explore-{next(self._numbers)}")
            self._places[taken.place.name] = taken
        taken.clear()
        try:
            yield taken.place
        finally:
            with self._lock:
                self._free.append(taken)

    def launch(
        self,
        place: RunPlace,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        is_clean: bool,
        working: Path | None,
    ) -> LaunchedRun:
        arguments = tuple(command[len(command) - len(self._program.arguments) :])
        at = self._places[place.name]
        if at.server is None or (self._libraries is not None and not at.is_ready):
            at.is_ready = self._libraries is not None
            self._open_server(at, replace(self._program, arguments=arguments), environment, working)
            if at.is_ready and self._forks_late and at.server is not None:
                at.server.hold(self.server.address)
                self._note_early(at.server.why_early)
        server, clock = at.server, SessionClock()
        assert server is not None
        return LaunchedRun(
            start=lambda: _ForkedLife(self, clock, server, environment, wants_modules=is_clean),
            now_s=clock.stamp_s,
            response_clock=clock,
            sent=self._sent if is_clean else None,
        )

    def _note_early(self, why: str) -> None:
        """Report once why runs are not forked at the first call."""
        with self._lock:
            is_new, self._is_early = bool(why) and not self._is_early, self._is_early or bool(why)
        if is_new:
            self._notices.remark(f"every case runs the program from its start, and not from its first call: {why}")

    def close(self) -> None:
        for place in self._places.values():
            place.close()

    def load(self, libraries: Libraries) -> None:
        """Have the servers load this before further runs."""
        self._libraries = libraries

    def _open_server(
        self, place: _ForkPlace, program: PythonCommand, environment: Mapping[str, str], working: Path | None
    ) -> None:
        """Give a place a server that has loaded all libraries that can be loaded before a fork."""
        for _ in range(MAX_RESTARTS):
            name = f"{place.place.name}-warm-up"
            try:
                place.open(
                    program, environment, self._fit_libraries(), url=self.server.session_url(name), working=working
                )
            finally:
                self.server.end_session(name)
            assert place.server is not None
            if place.server.is_fit:
                return
            self._unfit.update(place.server.blamed)
            self._sent = self._sent if not place.server.left else SentRequests(0)
        place.open(program, environment, None, working=working)

    def _fit_libraries(self) -> Libraries | None:
        """Return the libraries that can be loaded and used before a fork as in the clean run."""
        if self._libraries is None:
            return None
        requests = [(path, body.decode("utf-8", "replace")) for path, body in self._sent.requests]
        return replace(self._libraries.without(self._unfit), requests=requests)


class _ForkPlace:
    """A place with its fork server, which `is_ready` when it has loaded its libraries."""

    def __init__(self, name: str) -> None:
        self._temporary = PrivateFolder()
        self.place = RunPlace(name, self._temporary.name)
        self.server: ForkServer | None = None
        self.is_ready = False

    def open(
        self,
        program: PythonCommand,
        environment: Mapping[str, str],
        libraries: Libraries | None,
        *,
        url: str = "",
        working: Path | None = None,
    ) -> None:
        """Start the server, or let it load its first libraries."""
        if self.server is not None and self.server.is_fit and libraries is not None:
            self.server.load(libraries)
            return
        self.close_server()
        self.server = ForkServer(program, environment, libraries, url=url, folder=working)

    def clear(self) -> None:
        """Empty the folder."""
        for each in Path(self.place.folder).iterdir():
            if each.is_dir() and not each.is_symlink():
                shutil.rmtree(each, ignore_errors=True)
            else:
                each.unlink(missing_ok=True)

    def close_server(self) -> None:
        if self.server is not None:
            self.server.close()
            self.server = None

    def close(self) -> None:
        self.close_server()
        self._temporary.cleanup()


class VirtualLife(ABC):
    """A process in virtual time. In real time it may go without a call or a wait for as long as a fresh one without a
    call.

    A subclass sets `_process`, which talks to the clock of the session by the socket `_link`.
    """

    _process: ForkedProgram | ProgramProcess

    def __init__(self, launcher: VirtualLauncher, clock: SessionClock) -> None:
        self.hung = ""
        self._launcher, self._clock = launcher, clock
        self._servers_end, self._link = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._run_clock: RunClock | None = None

    @abstractmethod
    def _run_process(self) -> ProgramExit:
        """Run the process until it ends, while `_left_s` allows, and close its end of the link."""

    def run(self, observer: RunObserver) -> ProgramExit:
        launcher, clock = self._launcher, self._clock
        self._run_clock = RunClock(launcher.virtual_patience, observer, now_s=clock.time)
        started_s = clock.last_message_s = SYSTEM_CLOCK.monotonic_s()
        launcher.server.call_soon(lambda: clock.open(self._servers_end, self))
        try:
            ended = self._run_process()
        finally:
            launcher.server.call_soon(clock.close)
        if ended.code is not None:
            launcher.patience.note(SYSTEM_CLOCK.monotonic_s() - started_s)
            launcher.virtual_patience.note(self._run_clock.took_s)
        return ended

    def kill(self) -> None:
        self._clock.stop()
        self._process.kill()

    def limit_s(self) -> float:
        assert self._run_clock is not None
        return self._run_clock.due_s

    def end(self, *, sleeps_s: float = math.inf) -> None:
        """End it, because its time is over."""
        assert self._run_clock is not None
        self.hung = self.hung or self._run_clock.hung_text(sleeps_s=sleeps_s)
        self.kill()

    def note_modules(self, names: bytes) -> None:
        """Do nothing: nothing is loaded before a run."""

    def _left_s(self) -> float:
        assert self._run_clock is not None
        left_s = self._run_clock.idle_s(self._launcher.patience) - (
            SYSTEM_CLOCK.monotonic_s() - self._clock.last_message_s
        )
        if left_s <= 0:
            self.end()
        return left_s


class _ForkedLife(VirtualLife):
    """A fork of a process that has loaded the libraries of the program."""

    def __init__(
        self,
        launcher: ForkLauncher,
        clock: SessionClock,
        server: ForkServer,
        environment: Mapping[str, str],
        *,
        wants_modules: bool,
    ) -> None:
        super().__init__(launcher, clock)
        self._forks, self._wants_modules, self._has_modules = launcher, wants_modules, Event()
        self._modules: list[str] = []
        address = launcher.server.address
        self._process = self._program = ForkedProgram(server, address, environment, wants_modules=wants_modules)

    def _run_process(self) -> ProgramExit:
        return self._program.run(self._left_s, self._link, self._clock.now_s)

    def run(self, observer: RunObserver) -> ProgramExit:
        ended = super().run(observer)
        if ended.code is not None and self._wants_modules:
            self._has_modules.wait(MODULES_S)
        return ended

    def note_modules(self, names: bytes) -> None:
        part = decode(names, Libraries).modules
        self._modules += part
        if not part:
            self._forks.load(Libraries(self._modules))
            self._has_modules.set()


NODE_GUEST = Path(__file__).parent / "guest" / "node_time.cjs"
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
    """Starts a Node program anew for each run, in virtual time. Node 22's compiled code is kept for all runs."""

    def __init__(self, server: WireServer, patience: Patience) -> None:
        self.server, self.patience, self.virtual_patience = server, patience, patience.copy()
        self._numbers = count(1)
        self._compiled = PrivateFolder()

    @contextmanager
    def place(self) -> Iterator[RunPlace]:
        with PrivateFolder() as folder:
            yield RunPlace(f"node-{next(self._numbers)}", folder)

    def launch(
        self,
        place: RunPlace,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        is_clean: bool,
        working: Path | None,
    ) -> LaunchedRun:
        clock, cache = SessionClock(), environment.get(COMPILE_CACHE) or self._compiled.name
        return LaunchedRun(
            start=lambda: _NodeLife(self, clock, command, environment, cache, working),
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
        working: Path | None,
    ) -> None:
        super().__init__(launcher, clock)
        given = {name: environment.get(name) for name in (OPTIONS, COMPILE_CACHE)}
        address, port = launcher.server.address
        link = self._link.fileno()
        settings = {"link": link, "address": address, "port": port, "now_s": clock.now_s, "environment": given}
        own = {
            OPTIONS: f"--require {json.dumps(str(NODE_GUEST))} {given[OPTIONS] or ''}".strip(),
            COMPILE_CACHE: compile_cache,
            CLOCK: json.dumps(settings),
        }
        self._process = self._program = ProgramProcess(command, {**environment, **own}, [link], folder=working)

    def _run_process(self) -> ProgramExit:
        with self._link:
            return self._program.run(self._left_s)
