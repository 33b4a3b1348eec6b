"""Starts the runs of a program: each from its interpreter, or as a fork of a process that has loaded its libraries."""

from __future__ import annotations

import shutil
import socket
import tempfile
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
from offbook.explore.observers.wire import WireObserver
from offbook.explore.processes.sdk_warm_up import SentRequest, SentRequests
from offbook.subjects.program.fork_server import ForkedProgram, ForkServer, Libraries
from offbook.subjects.program.process import Patience, ProgramExit, ProgramProcess, RunClock
from offbook.subjects.program.python_command import PythonCommand
from offbook.wire.calls import ignore_request
from offbook.wire.request import HttpRequest
from offbook.wire.server.session_clock import LOOP_CLOCK, LifeOnClock, ResponseClock, SessionClock
from offbook.wire.server.wire_server import WireServer

MAX_RESTARTS = 8
"""How often a fork server is started again, without the libraries that turned out to be unfit."""
MODULES_S = 5.0


class RunPlace(Struct, frozen=True):
    """Where a run happens: the name of its session, and a folder that is empty when it starts."""

    name: str
    folder: str


class ProgramLife(Protocol):
    """A process of a program, which can be killed from another thread, even before it has started.

    `hung` says what it waited for when its time was over.
    """

    hung: str

    def run(self, observer: WireObserver) -> ProgramExit:
        """Run it until it ends, or for as long as it may take.

        Raises:
            InputError: it cannot be started.
            UnfitProgramError: it cannot be forked.
        """
        ...

    def kill(self) -> None: ...


class LaunchedRun(Protocol):
    """A run of a program, which may have several lives.

    `response_clock` is the time on which its answers are due. `note_request` is called with each of its requests.
    """

    response_clock: ResponseClock
    note_request: Callable[[HttpRequest], object]

    def now_s(self) -> float:
        """Return the time by which its calls are noted."""
        ...

    def start(self) -> ProgramLife:
        """Return the next life."""
        ...


class ProgramLauncher(Protocol):
    """Starts the runs of a program."""

    def place(self) -> AbstractContextManager[RunPlace]:
        """Return a place that no other run is at, for a block."""
        ...

    def launch(
        self, place: RunPlace, command: Sequence[str], environment: Mapping[str, str], *, is_clean: bool
    ) -> LaunchedRun:
        """Prepare a run of a command in an environment. Raises UnfitProgramError if it cannot be forked."""
        ...

    def close(self) -> None: ...


class FreshLauncher:
    """Starts the command anew for each run, in real time."""

    def __init__(self, patience: Patience) -> None:
        self.patience, self._numbers = patience, count(1)

    @contextmanager
    def place(self) -> Iterator[RunPlace]:
        with tempfile.TemporaryDirectory(prefix="offbook-") as folder:
            yield RunPlace(f"fresh-{next(self._numbers)}", folder)

    def launch(
        self,
        place: RunPlace,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        is_clean: bool,
    ) -> LaunchedRun:
        return _FreshRun(command, environment, self.patience)

    def close(self) -> None:
        """Do nothing: nothing is left."""


class _FreshRun:
    def __init__(self, command: Sequence[str], environment: Mapping[str, str], patience: Patience) -> None:
        self.response_clock: ResponseClock = LOOP_CLOCK
        self.note_request: Callable[[HttpRequest], object] = ignore_request
        self._command, self._environment, self.patience = command, environment, patience

    def now_s(self) -> float:
        return SYSTEM_CLOCK.monotonic_s()

    def start(self) -> ProgramLife:
        return _FreshLife(ProgramProcess(self._command, self._environment), self.patience)


class _FreshLife:
    def __init__(self, process: ProgramProcess, patience: Patience) -> None:
        self.hung = ""
        self._process, self.patience = process, patience

    def run(self, observer: WireObserver) -> ProgramExit:
        clock = RunClock(self.patience, observer)
        ended = self._process.run(clock.left_s)
        if ended.code is not None:
            self.patience.note(clock.took_s)
        self.hung = clock.hung
        return ended

    def kill(self) -> None:
        self._process.kill()


class ForkLauncher:
    """Runs a Python program as forks of a fork server, in virtual time. Each place has a server of its own.

    The session, the folder and so the environment of a place are the same in all runs there. The clean run is a fork of
    a process that has loaded nothing; what it loads from outside the program's own folder is loaded for the others.
    `patience` judges real time, for a program that works without an end. If it `forks_late` but cannot, `on_early` is
    called once with the reason.
    """

    def __init__(
        self,
        program: PythonCommand,
        server: WireServer,
        patience: Patience,
        *,
        forks_late: bool = False,
        on_early: Callable[[str], object] = lambda _: None,
    ) -> None:
        self._program, self._server, self.patience, self._forks_late = program, server, patience, forks_late
        self._on_early, self._is_early = on_early, False
        self.virtual_patience = patience.copy()
        self._libraries: Libraries | None = None
        self._sent = SentRequests()
        self._unfit = set[str]()
        self._lock = Lock()
        self._numbers = count(1)
        self._free: list[_Place] = []
        self._places: dict[str, _Place] = {}

    @contextmanager
    def place(self) -> Iterator[RunPlace]:
        with self._lock:
            taken = self._free.pop() if self._free else self._new_place()
        taken.clear()
        try:
            yield taken.place
        finally:
            with self._lock:
                self._free.append(taken)

    def launch(
        self, place: RunPlace, command: Sequence[str], environment: Mapping[str, str], *, is_clean: bool
    ) -> LaunchedRun:
        arguments = tuple(command[len(command) - len(self._program.arguments) :])
        at = self._places[place.name]
        if at.server is None or (self._libraries is not None and not at.is_ready):
            at.is_ready = self._libraries is not None
            self._open_server(at, replace(self._program, arguments=arguments), environment)
            if at.is_ready and self._forks_late and at.server is not None:
                at.server.hold(self.address)
                self._note_early(at.server.why_early)
        assert at.server is not None
        return _ForkedRun(self, at.server, environment, is_clean=is_clean)

    def _note_early(self, why: str) -> None:
        """Say once why runs are not forked at the first call."""
        with self._lock:
            is_new, self._is_early = bool(why) and not self._is_early, self._is_early or bool(why)
        if is_new:
            self._on_early(why)

    def close(self) -> None:
        for place in self._places.values():
            place.close()

    def load(self, libraries: Libraries) -> None:
        """Have the servers load this before further runs."""
        self._libraries = libraries

    def note_request(self, request: HttpRequest) -> None:
        """Note a request of the clean run, so that the servers send it before further runs, too."""
        self._sent.add(request)

    @property
    def address(self) -> tuple[str, int]:
        return address_of(self._server)

    def _new_place(self) -> _Place:
        made = _Place(f"explore-{next(self._numbers)}")
        self._places[made.place.name] = made
        return made

    def _open_server(self, place: _Place, program: PythonCommand, environment: Mapping[str, str]) -> None:
        """Let a place have a server that has loaded what can be loaded before a fork."""
        for _ in range(MAX_RESTARTS):
            name = f"{place.place.name}-warm-up"
            try:
                place.open(program, environment, self._fit_libraries(), url=self._server.session_url(name))
            finally:
                self._server.end_session(name)
            assert place.server is not None
            if place.server.is_fit:
                return
            self._unfit.update(place.server.blamed)
            self._sent = self._sent if not place.server.left else SentRequests(0)
        place.open(program, environment, None)

    def _fit_libraries(self) -> Libraries | None:
        """Return what can be loaded before a fork, and is used then as the clean run has used it."""
        if self._libraries is None:
            return None
        return replace(self._libraries.without(self._unfit), requests=_texts_of(self._sent.requests))

    def note(self, *, took_s: float, virtual_s: float) -> None:
        """Note how long a run took that ended by itself."""
        self.patience.note(took_s)
        self.virtual_patience.note(virtual_s)

    def open_clock(self, clock: SessionClock, life: LifeOnClock) -> socket.socket:
        """Have the server listen to a program, and return the program's end of the link."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._server.call_soon(lambda: clock.open(ours, life))
        return theirs

    def close_clock(self, clock: SessionClock) -> None:
        self._server.call_soon(clock.close)


def address_of(server: WireServer) -> tuple[str, int]:
    """Return host and port."""
    host, _, port = server.url.removeprefix("http://").rpartition(":")
    return host.strip("[]"), int(port)


def _texts_of(requests: Sequence[SentRequest]) -> list[tuple[str, str]]:
    return [(path, body.decode("utf-8", "replace")) for path, body in requests]


class _Place:
    """A place with its fork server, which `is_ready` when it has loaded what can be loaded."""

    def __init__(self, name: str) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="offbook-")
        self.place = RunPlace(name, self._temporary.name)
        self.server: ForkServer | None = None
        self.is_ready = False

    def open(
        self, program: PythonCommand, environment: Mapping[str, str], libraries: Libraries | None, *, url: str = ""
    ) -> None:
        """Start the server, or let it load libraries if it has loaded none."""
        if self.server is not None and self.server.is_fit and libraries is not None:
            self.server.load(libraries)
            return
        self.close_server()
        self.server = ForkServer(program, environment, libraries, url=url)

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


class _ForkedRun:
    """A run in virtual time, which goes on in its next life."""

    def __init__(
        self, launcher: ForkLauncher, server: ForkServer, environment: Mapping[str, str], *, is_clean: bool
    ) -> None:
        self._launcher, self._server, self._environment, self._is_clean = launcher, server, environment, is_clean
        self.clock = SessionClock()
        self.response_clock: ResponseClock = self.clock
        self.note_request: Callable[[HttpRequest], object] = launcher.note_request if is_clean else ignore_request

    def now_s(self) -> float:
        return self.clock.stamp_s()

    def start(self) -> ProgramLife:
        return _ForkedLife(self._launcher, self.clock, self._server, self._environment, wants_modules=self._is_clean)


class VirtualLife:
    """A process in virtual time. In real time it may go on without a call or a wait for as long as a fresh one without
    a call."""

    def __init__(self, process: ForkedProgram | ProgramProcess, clock: SessionClock, patience: Patience) -> None:
        self.hung = ""
        self._process, self._clock, self._patience = process, clock, patience
        self._run_clock: RunClock | None = None

    def kill(self) -> None:
        self._clock.stop()
        self._process.kill()

    def limit_s(self) -> float:
        assert self._run_clock is not None
        return self._run_clock.due_s

    def end(self) -> None:
        """End it, because its time is over."""
        assert self._run_clock is not None
        self.hung = self.hung or self._run_clock.hung_text()
        self.kill()

    def note_modules(self, names: bytes) -> None:
        """Do nothing: nothing is loaded before a run."""

    def _left_s(self) -> float:
        left_s = self._patience.idle_s - (SYSTEM_CLOCK.monotonic_s() - self._clock.last_message_s)
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
        self._launcher, self._wants_modules = launcher, wants_modules
        self._has_modules = Event()
        self._program = ForkedProgram(server, launcher.address, environment, wants_modules=wants_modules)
        super().__init__(self._program, clock, launcher.patience)

    def run(self, observer: WireObserver) -> ProgramExit:
        self._run_clock = RunClock(self._launcher.virtual_patience, observer, now_s=self._clock.time)
        started_s, virtual_s = SYSTEM_CLOCK.monotonic_s(), self._clock.now_s
        link = self._launcher.open_clock(self._clock, self)
        try:
            ended = self._program.run(self._left_s, link, virtual_s)
        finally:
            self._launcher.close_clock(self._clock)
        if ended.code is not None:
            took_s = SYSTEM_CLOCK.monotonic_s() - started_s
            self._launcher.note(took_s=took_s, virtual_s=self._clock.now_s - virtual_s)
            if self._wants_modules:
                self._has_modules.wait(MODULES_S)
        return ended

    def note_modules(self, names: bytes) -> None:
        self._launcher.load(decode(names, Libraries))
        self._has_modules.set()
