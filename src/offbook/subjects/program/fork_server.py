"""Fork servers of Python programs, seen from here: they load libraries, and run the program again and again."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from offbook.explore.run import CASE_VARIABLE
from offbook.subjects.program.process import MAX_OUTPUT_BYTES, ProgramExit
from offbook.subjects.program.python_command import PythonCommand
from offbook.tools.child_process import OUTPUT_GRACE_S, CapturedOutput

GUEST = Path(__file__).parent / "guest" / "start.py"
UNFIT = 78
"""The exit code of an interpreter that cannot be a fork server."""
MAX_MESSAGE_BYTES = 1024 * 1024
NAMES_A_MESSAGE = 1000
MAX_REQUESTS_CHARS = 100_000
"""The maximum size of requests in a message, which must fit into a socket's buffer. Longer ones are left out."""
START_S = 120.0
"""The seconds for an interpreter to start, or to load libraries."""
MAX_POLL_S = 86_400.0
"""The longest single wait: `poll` refuses more than three weeks."""


class Libraries(Struct, frozen=True):
    """The foreign modules of a run, in order, and its first requests by path and body."""

    modules: list[str]
    requests: list[tuple[str, str]] = []

    def without(self, unfit: Set[str]) -> Libraries:
        """Return these libraries without some modules and those inside them."""

        def is_fit(name: str) -> bool:
            return not any(name == each or name.startswith(f"{each}.") for each in unfit)

        return replace(self, modules=[name for name in self.modules if is_fit(name)])


class UnfitProgramError(Exception):
    """A program that cannot be forked, and why."""


class ForkServer:
    """A process in a program's interpreter that forks for each run, one at a time.

    Args:
        command: the program.
        environment: the environment of all runs.
        libraries: what to load before the first run.
        url: what answers requests that are sent to warm libraries up.
        folder: where all runs work; by default here. It may be another one of that name for each run.

    Raises:
        UnfitProgramError: the interpreter cannot do it, or has ended.
    """

    def __init__(
        self,
        command: PythonCommand,
        environment: Mapping[str, str],
        libraries: Libraries | None = None,
        *,
        url: str = "",
        folder: Path | None = None,
    ) -> None:
        self._environment, self._url = dict(environment), url
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._stack = ExitStack()
        with theirs:
            output = self._stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
            try:
                self._process = subprocess.Popen(  # noqa: S603 - it is the user's own program
                    [command.interpreter, *command.flags, str(GUEST), str(theirs.fileno())],
                    cwd=folder,
                    env={**environment, **command.environment},
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                )
            except OSError as error:
                self._stack.close()
                raise UnfitProgramError(f"{command.interpreter} cannot be started: {error.strerror}") from None
        try:
            self._expect("ready")
            self._ask(
                {
                    "program": {
                        "kind": command.kind,
                        "target": command.target,
                        "arguments": command.arguments,
                        "command": command.command,
                    },
                    "folder": None if folder is None else str(folder),
                },
                "prepared",
            )
            self.blamed: list[str] = []
            self.why = self.left = self.why_early = ""
            self.is_held = False
            if libraries is not None:
                self.load(libraries)
        except BaseException:
            self.close()
            raise

    def load(self, libraries: Libraries) -> None:
        """Load modules. `blamed` are those unfit for a fork, and those that load them, with the reason `why`.

        `left` is the requests' residue that is unfit for a fork. In both cases this server is useless.
        """
        self.blamed, self.left = [], ""
        for start in range(0, len(libraries.modules), NAMES_A_MESSAGE):
            if self.is_fit:
                part = libraries.modules[start : start + NAMES_A_MESSAGE]
                loaded = self._ask({"preload": {"modules": part}}, "blamed")
                self.blamed, self.why = loaded["blamed"], loaded["why"]
        for requests in _in_parts(libraries.requests):
            if self.is_fit:
                self.left = self._ask({"requests": requests, "url": self._url}, "left")["left"]

    def hold(self, address: tuple[str, int]) -> None:
        """Fork further runs where the program first does more than work in memory, if possible.

        `address` is the server of the runs. `why_early` is the reason for forking them earlier.
        """
        found = self._ask({"hold": address}, "held")
        self.is_held, self.why_early = found["held"], found["why"]

    @property
    def is_fit(self) -> bool:
        """Whether the loaded modules can be forked."""
        return not self.blamed and not self.left

    def start(self, run: ForkedProgram, files: Sequence[int], now_s: float) -> None:
        """Start a run at a time, with the files for its outputs and for its clock."""
        changes = {
            name: run.environment.get(name)
            for name in self._environment.keys() | run.environment.keys()
            if self._environment.get(name) != run.environment.get(name) and name != CASE_VARIABLE
        }
        case = {CASE_VARIABLE: run.environment.get(CASE_VARIABLE, "")}  # it differs, and decides nothing
        fields = {
            "run": run.address,
            "now_s": now_s,
            "environment": changes,
            "case": case,
            "modules": run.wants_modules,
        }
        command = json.dumps(fields).encode()
        if not self._start(command, files):
            self.is_held, self.why_early = False, "it started otherwise, or what it had read has changed"
            self._start(command, files)

    def _start(self, command: bytes, files: Sequence[int]) -> bool:
        """Start a run, and return whether it could be started at the place where the last one was."""
        try:
            socket.send_fds(self._control, [command], list(files))
        except OSError as error:
            raise UnfitProgramError(f"its fork server has ended: {error.strerror}") from None
        return "pid" in self._expect("pid", "released")

    def kill_run(self) -> None:
        """Kill the run. May be called from any thread, and after it has ended."""
        with suppress(OSError):
            self._control.send(json.dumps({"kill": True}).encode())

    def has_ended_within(self, left_s: Callable[[], float]) -> bool:
        """Wait for the end of the run while `left_s` returns more than 0, and return whether it has ended."""
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        while (more_s := left_s()) > 0:
            if poll.poll(max(1.0, min(more_s, MAX_POLL_S) * 1000)):
                return True
        return False

    def exit_code(self) -> int:
        """Return the exit code of a run that has ended."""
        return int(self._expect("exit")["exit"])

    @property
    def pid(self) -> int:
        """The process of the server."""
        return self._process.pid

    def close(self) -> None:
        """End the process, and a run that is not over."""
        self._control.close()
        try:
            self._process.wait(OUTPUT_GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._stack.close()

    def _ask(self, command: Mapping[str, Any], expected: str) -> dict[str, Any]:
        self._control.send(json.dumps(command).encode())
        return self._expect(expected)

    def _expect(self, *names: str) -> dict[str, Any]:
        """Return the next message, which has to be of one of these names."""
        self._control.settimeout(START_S)
        try:
            data = self._control.recv(MAX_MESSAGE_BYTES)
        except OSError as error:
            raise UnfitProgramError(f"its fork server does not answer: {error}") from None
        message = json.loads(data) if data else {}
        if message.keys().isdisjoint(names):
            raise UnfitProgramError(self._ending_text())
        return dict(message)

    def _ending_text(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            if self._process.wait(OUTPUT_GRACE_S) == UNFIT:
                return "its interpreter is not CPython 3.11 or later on Linux"
        return f"its fork server has ended, with exit code {self._process.returncode}"


def _in_parts(requests: Iterable[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    """Yield the requests in lists that fit into a message each, without those that are too long."""
    part, size = list[tuple[str, str]](), 0
    for request in requests:
        chars = len(json.dumps(request))
        if chars > MAX_REQUESTS_CHARS:
            continue
        if size + chars > MAX_REQUESTS_CHARS:
            yield part
            part, size = [], 0
        part.append(request)
        size += chars
    if part:
        yield part


class ForkedProgram:
    """One run of a program by a fork server, which can be killed from another thread, even before it has started.

    It talks to the server at `address`. `environment` may differ from the fork server's.
    """

    def __init__(
        self, server: ForkServer, address: tuple[str, int], environment: Mapping[str, str], *, wants_modules: bool
    ) -> None:
        self.address, self.environment, self.wants_modules = address, environment, wants_modules
        self._server = server
        self._is_killed = self._is_running = False

    def run(self, left_s: Callable[[], float], link: socket.socket, now_s: float = 0.0) -> ProgramExit:
        """Run it until it ends, or until `left_s`, its remaining time, returns 0 or less.

        `link` leads to its clock, which is at `now_s`, and is closed here.

        Raises:
            UnfitProgramError: the fork server has ended.
        """
        pipes = [os.pipe2(os.O_CLOEXEC) for _ in range(2)]
        try:
            with link:
                self._server.start(self, [*(writing for _, writing in pipes), link.fileno()], now_s)
        except BaseException:
            for reading, _ in pipes:
                os.close(reading)
            raise
        finally:
            for _, writing in pipes:
                os.close(writing)
        stdout, stderr = (CapturedOutput(os.fdopen(reading, "rb"), MAX_OUTPUT_BYTES) for reading, _ in pipes)
        self._is_running = True
        if self._is_killed:
            self._server.kill_run()
        has_ended = self._server.has_ended_within(left_s)
        if not has_ended:
            self._server.kill_run()
        code = self._server.exit_code()
        self._is_running = False
        for output in (stdout, stderr):
            output.join(OUTPUT_GRACE_S)
        is_cut = self._is_killed or not has_ended
        return ProgramExit(None if is_cut else code, stdout.text, stderr.text)

    def kill(self) -> None:
        """Kill it now, or as soon as it starts. May be called from any thread, and after it has ended."""
        self._is_killed = True
        if self._is_running:
            self._server.kill_run()
