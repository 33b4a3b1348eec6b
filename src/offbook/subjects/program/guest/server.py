"""The fork server: a process in the program's interpreter that has loaded its libraries, and forks for every run.

It has one thread. Its environment is that of all its runs, so the values that libraries read at their import are right
in each of them. It ends with offbook, when its socket closes.
"""

from __future__ import annotations

import _socket
import array
import gc
import json
import os
import random
import select
import signal
import socket
import sys
import traceback
from contextlib import suppress
from typing import Any, NoReturn

from . import preload, waits
from .fork_point import ForkPoint, clone
from .program import Program, join_threads_at_exit
from .shared_time import SharedTime

MAX_MESSAGE_BYTES = 1024 * 1024
MAX_HOLD_S = 60.0
"""The seconds for a program to reach its fork point."""
NAMES_A_MESSAGE = 1000
"""So many fit into the buffer of a socket, which holds 212,992 bytes on most machines."""
_HELD = b"held"
_PR_SET_PDEATHSIG = 1
_exit_now, _fork = os._exit, os.fork


def serve(control: int) -> NoReturn:
    """Serve the commands from the socket `control`."""
    join_threads_at_exit()
    waits.install()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # Ctrl-C is for offbook, which ends this process
    _Server(_socket.socket(fileno=control)).serve()


class _Server:
    def __init__(self, control: Any) -> None:
        self._control = control
        self._program: Program | None = None
        self._folder: str | None = None
        self._at_start = frozenset[str]()
        self._running: int | None = None

    def serve(self) -> NoReturn:
        self._send({"ready": list(sys.version_info[:3])})
        while True:
            command, files = self._receive()
            match command:
                case {"program": program, "folder": folder}:
                    self._folder = folder
                    self._program = Program(**program)
                    self._program.prepare()
                    self._at_start = frozenset(sys.modules)
                    self._send({"prepared": True})
                case {"preload": libraries}:
                    self._enter()
                    self._send(preload.load(libraries["modules"]))
                    _freeze()
                case {"requests": requests, "url": url}:
                    self._send({"left": preload.send_requests(requests, url)})
                    _freeze()
                case {"hold": address}:
                    self._hold(tuple(address))
                case {"run": _}:
                    own = os.getpid()
                    pid = _fork()
                    if pid == 0:
                        self._run_child(own, command, files)
                    self._attend(pid, files)
                case _:  # a run that has ended cannot be killed
                    pass

    def _enter(self) -> None:
        """Enter the folder of the runs again, which may have been replaced."""
        if self._folder is not None:
            os.chdir(self._folder)

    def _send(self, message: dict[str, Any]) -> None:
        try:
            self._control.send(json.dumps(message).encode())
        except OSError:
            self._leave()

    def _leave(self) -> NoReturn:
        """End this process, because offbook has ended, and the run with all that it has started."""
        if self._running is not None:
            _kill(self._running)
        _exit_now(0)

    def _receive(self) -> tuple[dict[str, Any], list[int]]:
        """Return the next command with its files, or end this process if there will be none."""
        data, files = self._receive_any()
        if not data:
            self._leave()
        return json.loads(data), files

    def _receive_any(self) -> tuple[bytes, list[int]]:
        """Return the next message and its files, or nothing if offbook has ended, even with unread messages."""
        files = array.array("i")
        try:
            data, extra, _, _ = self._control.recvmsg(MAX_MESSAGE_BYTES, socket.CMSG_LEN(8 * files.itemsize))
        except ConnectionError:
            return b"", []
        for level, kind, numbers in extra:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                files.frombytes(numbers[: len(numbers) - len(numbers) % files.itemsize])
        return data, list(files)

    def _attend(self, pid: int, files: list[int]) -> None:
        """Report the start and the end of a run."""
        for each in files:
            os.close(each)
        self._running = pid
        self._send({"pid": pid})
        code = self._wait_for(pid)
        self._running = None
        self._send({"exit": code})

    def _hold(self, address: tuple[str, int]) -> None:
        """Let another process fork the runs, at the program's fork point, as long as possible."""
        own = os.getpid()
        answer, answering = os.pipe()
        pid = _fork()
        if pid == 0:
            os.close(answer)
            self._run_to_fork_point(own, address, answering)
        os.close(answering)
        found = self._answer_of(pid, answer)
        is_held = found == _HELD
        why = "" if is_held else found.decode() or "it ends before it calls anybody"
        self._send({"held": is_held, "why": why})
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if is_held and code:
            _exit_now(1)

    def _answer_of(self, pid: int, answer: int) -> bytes:
        """Return the other process's answer, or nothing if it has ended, or took too long and was killed."""
        waits_for = select.poll()
        waits_for.register(answer, select.POLLIN)
        waits_for.register(self._control.fileno(), select.POLLIN)
        while answer not in (ready := {file for file, _ in waits_for.poll(MAX_HOLD_S * 1000)}):
            if not ready or not self._receive_any()[0]:
                _kill(pid)
                break
        with os.fdopen(answer, "rb") as reading:
            return reading.readline().strip()  # several threads may refuse

    def _run_to_fork_point(self, parent: int, address: tuple[str, int], answering: int) -> NoReturn:
        """Become the program, up to its fork point, and fork its runs there."""

        def hold() -> None:
            try:
                os.write(answering, _HELD + b"\n")
                os.close(answering)
                self._fork_at(point)
            except BaseException:
                _exit_now(1)

        def refuse(why: str) -> NoReturn:
            os.write(answering, why.encode() + b"\n")
            _exit_now(0)

        try:
            os.setsid()
            _die_with(parent)
            _take_outputs([os.memfd_create("stdout"), os.memfd_create("stderr")])
            _reset()
            self._enter()
            point = ForkPoint(address, hold, refuse)
            waits.Waits.follow(point.clock)
            point.watch()
            assert self._program is not None
            code = self._program.run()
            _exit_now(code if point.is_left else 0)
        finally:
            _exit_now(1)

    def _fork_at(self, point: ForkPoint) -> None:
        """Fork the runs here, and return in each of them. This process ends at the first that must not start here."""
        own, printed = os.getpid(), [os.pread(number, os.fstat(number).st_size, 0) for number in (1, 2)]
        while True:
            command, files = self._receive()
            if "run" not in command:  # a run that has ended cannot be killed
                continue
            if command["now_s"] or command["environment"] or command["modules"] or not point.is_current:
                self._send({"released": True})
                _exit_now(0)
            pid = clone()
            if pid < 0:
                raise OSError("it cannot be forked")
            if pid == 0:
                linked = self._become_run(own, files)
                self._enter()
                os.environ.update(command["case"])
                for number, content in zip((1, 2), printed, strict=True):
                    _write(number, content)
                point.leave(linked)
                return
            self._attend(pid, files)

    def _wait_for(self, pid: int) -> int:
        """Wait until the run has ended, kill the rest of its group, and return its exit code."""
        ending = os.pidfd_open(pid)
        waits_for = select.poll()
        waits_for.register(ending, select.POLLIN)
        waits_for.register(self._control.fileno(), select.POLLIN)
        has_ended = False
        while not has_ended:
            ready = {file for file, _ in waits_for.poll()}
            has_ended = ending in ready
            if not has_ended:
                if not self._receive_any()[0]:
                    self._leave()
                _kill(pid)
        os.close(ending)
        _kill(pid)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def _run_child(self, parent: int, command: dict[str, Any], files: list[int]) -> NoReturn:
        """Become the program, with its outputs and the link to the clock in `files`."""
        try:
            linked = self._become_run(parent, files)
            self._enter()
            _reset()
            os.environ.update(command["case"])
            for name, value in command["environment"].items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value
            waits.Waits.follow(SharedTime(linked, tuple(command["run"]), command["now_s"]))
            assert self._program is not None
            code = self._program.run()
            if command["modules"]:
                waits.Waits.follow(None)
                self._tell_modules(linked)
            _exit_now(code)
        except BaseException:  # ours, as the program has its own end
            traceback.print_exc()
        finally:
            _exit_now(1)

    def _tell_modules(self, linked: Any) -> None:
        """Send the names of the loaded modules, in messages that fit into a socket's buffer.

        Without them, the next runs load it themselves.
        """
        assert self._program is not None
        names = preload.foreign_modules(self._at_start, self._program.folders)
        parts = [names[start : start + NAMES_A_MESSAGE] for start in range(0, len(names), NAMES_A_MESSAGE)]
        with suppress(OSError):
            for part in (*parts, []):
                linked.send(b"m" + json.dumps({"modules": part}).encode())

    def _become_run(self, parent: int, files: list[int]) -> Any:
        """Leave the group and the files of the server, and return the link to the clock."""
        os.setsid()
        _die_with(parent)
        self._control.close()
        _take_outputs(files[:2])
        linked = _socket.socket(fileno=files[2])
        os.set_inheritable(files[2], False)
        return linked


def _freeze() -> None:
    """Keep the present memory shared: no run collects garbage in it."""
    gc.collect()
    gc.freeze()


def _take_outputs(files: list[int]) -> None:
    for number, file in zip((1, 2), files, strict=True):
        os.dup2(file, number)
        os.close(file)


def _reset() -> None:
    """Have the signals and the random numbers of a process that starts."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    random.seed(0)


def _write(file: int, content: bytes) -> None:
    while content:
        content = content[os.write(file, content) :]


def _kill(pid: int) -> None:
    """Kill an unfinished run, and its group, which it may not have yet."""
    for kill in (os.kill, os.killpg):
        with suppress(ProcessLookupError, PermissionError):  # nothing is left of it
            kill(pid, signal.SIGKILL)


def _die_with(parent: int) -> None:
    """Let the system kill this process when its parent ends."""
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        _exit_now(1)
