"""The fork server: a process in the program's interpreter that has loaded its libraries, and forks for every run.

It has one thread. Its environment is that of all its runs, so that what a library reads from it when it is loaded is
right in each of them. It ends when offbook does: then its socket is closed.
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
from contextlib import suppress
from typing import Any, NoReturn

from . import preload, waits, warm_up
from .program import Program, join_threads_at_exit
from .shared_time import SharedTime

MAX_MESSAGE_BYTES = 1024 * 1024
_PR_SET_PDEATHSIG = 1
_exit_now, _fork = os._exit, os.fork


def serve(control: int) -> NoReturn:
    """Serve the commands that come by the socket `control`."""
    join_threads_at_exit()
    waits.install()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # Ctrl-C is for offbook, which ends this process
    _Server(_socket.socket(fileno=control)).serve()


class _Server:
    def __init__(self, control: Any) -> None:
        self._control = control
        self._program: Program | None = None
        self._at_start = frozenset[str]()

    def serve(self) -> NoReturn:
        self._send({"ready": list(sys.version_info[:3])})
        while True:
            command, files = self._receive()
            match command:
                case {"program": program}:
                    self._program = Program(**program)
                    self._program.prepare()
                    self._at_start = frozenset(sys.modules)
                    self._send({"prepared": True})
                case {"preload": libraries, "url": url}:
                    loaded = preload.load(libraries["modules"])
                    if not loaded["blamed"]:
                        loaded["left"] = warm_up.warm_up(libraries, url)
                    self._send(loaded)
                    gc.collect()
                    gc.freeze()  # its memory stays shared, and no run looks for garbage in it
                case {"run": _}:
                    self._run(command, files)
                case _:  # a run that has ended cannot be killed
                    pass

    def _send(self, message: dict[str, Any]) -> None:
        try:
            self._control.send(json.dumps(message).encode())
        except OSError:
            _exit_now(0)

    def _receive(self) -> tuple[dict[str, Any], list[int]]:
        """Return the next command and the files that came with it; ends this process if there will be none."""
        files = array.array("i")
        data, extra, _, _ = self._control.recvmsg(MAX_MESSAGE_BYTES, socket.CMSG_LEN(8 * files.itemsize))
        for level, kind, numbers in extra:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                files.frombytes(numbers[: len(numbers) - len(numbers) % files.itemsize])
        if not data:
            _exit_now(0)
        return json.loads(data), list(files)

    def _run(self, command: dict[str, Any], files: list[int]) -> None:
        own = os.getpid()
        pid = _fork()
        if pid == 0:
            self._run_child(own, command, files)
        for each in files:
            os.close(each)
        self._send({"pid": pid})
        code = self._wait_for(pid)
        self._send({"exit": code})

    def _wait_for(self, pid: int) -> int:
        """Wait until the run has ended, kill what is left of its group, and return its exit code."""
        ending = os.pidfd_open(pid)
        waits_for = select.poll()
        waits_for.register(ending, select.POLLIN)
        waits_for.register(self._control.fileno(), select.POLLIN)
        has_ended = False
        while not has_ended:
            ready = {file for file, _ in waits_for.poll()}
            has_ended = ending in ready
            if not has_ended:
                self._handle_during_run(pid)
        os.close(ending)
        _kill(pid)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def _handle_during_run(self, pid: int) -> None:
        """Handle the command to kill the run; without offbook, it is killed, too."""
        data = self._control.recv(MAX_MESSAGE_BYTES)
        _kill(pid)
        if not data:
            _exit_now(0)

    def _run_child(self, parent: int, command: dict[str, Any], files: list[int]) -> NoReturn:
        """Become the program, with its outputs and the link to the clock in `files`."""
        try:
            os.setsid()
            _die_with(parent)
            self._control.close()
            stdout, stderr, link = files
            os.dup2(stdout, 1)
            os.dup2(stderr, 2)
            os.close(stdout)
            os.close(stderr)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            for number in (signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_DFL)
            random.seed(0)
            linked = _socket.socket(fileno=link)
            os.set_inheritable(link, False)
            _change_environment(command["environment"])
            waits.Waits.follow(SharedTime(linked, tuple(command["run"]), command["now_s"]))
            assert self._program is not None
            code = self._program.run()
            if command["modules"]:
                waits.Waits.follow(None)
                names = preload.foreign_modules(self._at_start, self._program.folders)
                loaded = warm_up.used_libraries(names)
                linked.send(b"m" + json.dumps(loaded).encode())
            _exit_now(code)
        finally:
            _exit_now(1)


def _change_environment(changes: dict[str, str | None]) -> None:
    for name, value in changes.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _kill(pid: int) -> None:
    """Kill a run that was not waited for, and what is left of its group, which it may not have yet."""
    for kill in (os.kill, os.killpg):
        with suppress(ProcessLookupError, PermissionError):  # nothing is left of it
            kill(pid, signal.SIGKILL)


def _die_with(parent: int) -> None:
    """Let the system kill this process when its parent ends."""
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        _exit_now(1)
