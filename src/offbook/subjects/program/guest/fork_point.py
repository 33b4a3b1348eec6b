"""The place in a program where its runs are forked: before it first does more than work in its memory.

What the program does up to there is done once for all runs: it builds clients, agents and graphs. A run that is forked
there has an exact copy of the memory, so that the program may have nothing else yet that a run would share with others,
or would miss: threads, open files, connections, processes, timers, shared memory. What it has read must be the same for
the next run. The place is the first of these:

- an event of `sys.audit` that is not known to be harmless: a connection, a file that is opened for writing, a process;
- the start of a thread, or a wait;
- a random number that the program's own code takes from the system, or the number of its process: these have to be
  others in every run.

Before that, files are only read. Those from outside the libraries are noted, and also those that are only looked for.
"""

from __future__ import annotations

import ctypes
import fcntl
import gc
import os
import random
import select
import signal
import socket
import stat
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, NoReturn, TypeAlias

from . import preload
from .shared_time import SharedTime, has_children
from .waits import Waits

MAX_FILES_SEEN = 500
# fmt: off
HARMLESS = frozenset((
    "array.__new__", "builtins.id", "code.__new__", "compile", "exec", "function.__new__", "gc.get_objects",
    "gc.get_referents", "gc.get_referrers", "glob.glob", "glob.glob/2", "http.client.connect", "import",
    "marshal.dumps", "marshal.load", "marshal.loads", "object.__delattr__", "object.__getattr__",
    "object.__setattr__", "os.putenv", "os.unsetenv", "os.walk", "pathlib.Path.glob", "pathlib.Path.rglob",
    "pickle.find_class", "socket.gethostname", "sys._current_frames", "sys._getframe", "sys._getframemodulename",
    "sys.excepthook", "sys.set_asyncgen_hook_finalizer", "sys.set_asyncgen_hook_firstiter",
    "sys.set_asyncgen_hooks_finalizer", "sys.set_asyncgen_hooks_firstiter", "sys.unraisablehook", "urllib.Request",
))
# fmt: on
"""Events within this process's memory, or announced again by another event."""
_SIGNALS = ("os.kill", "os.killpg", "signal.pthread_kill")
_NETWORK_FAMILIES = (socket.AF_INET, socket.AF_INET6)
_SPECIAL_FOLDERS = ("/proc/", "/sys/", "/dev/")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_IMPORT_FILES = ("<frozen importlib._bootstrap_external>", "<frozen zipimport>")
_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
_LOOKS = ("stat", "lstat", "access", "readlink")

_Function: TypeAlias = Callable[..., Any]
_stat, _listdir, _readlink = os.stat, os.listdir, os.readlink

clone = ctypes.PyDLL(None).fork
"""Forks without the hooks of `os.register_at_fork`, which would change the state of a running program: its loop and its
random numbers. A process with a single thread is copied exactly.
"""


class ForkPoint:
    """The place where this process forks the program's runs.

    The runs talk to the server at `address`. `hold` is called at the place, and returns in the process of each run.
    `refuse` is called instead, with a reason, if the runs cannot be forked there, and ends this process. `is_left` is
    set in the process of a run.
    """

    def __init__(self, address: tuple[str, int], hold: Callable[[], None], refuse: Callable[[str], NoReturn]) -> None:
        self.clock, self._hold, self._refuse = _TimeToForkPoint(address, self), hold, refuse
        self._files = _open_files()
        self._shared, self._written = _shared_memory(), _written_bytes()
        self._seen: dict[tuple[str, bool], _FileState] = {}
        self._loops: list[_LoopFiles] = []
        self._running: Any = None
        self._replaced: list[tuple[Any, str, _Function, _Function]] = []
        self._is_watching = self.is_left = False
        self._dont_write_bytecode = sys.dont_write_bytecode
        self._reaching = 0

    def watch(self) -> None:
        """Watch for the place from now on. Earlier imports of the program are not noted."""
        sys.dont_write_bytecode = True
        preload.is_of_library("")  # it looks for files, once
        for name in _LOOKS:
            self._replace(os, name, self._noting(getattr(os, name)))
        for holder, name in ((os, "urandom"), (random, "_urandom"), (os, "getpid"), (os, "getppid")):
            self._replace(holder, name, self._before_own(getattr(holder, name)))
        self._replace(threading.Thread, "start", self._before(threading.Thread.start))
        self._is_watching = True
        sys.addaudithook(self._on_event)

    def reach(self) -> None:
        """Arrive at the place, if it has not been reached."""
        if not self._is_watching:
            return
        self._reaching = threading.get_ident()
        if len(_listdir("/proc/self/task")) > 1:  # no thread may go on from here
            self._refuse("it has a thread")
        self._is_watching = False
        sys.dont_write_bytecode = self._dont_write_bytecode
        for holder, name, real, ours in self._replaced:
            if vars(holder)[name] is ours:  # the program may have wrapped it
                setattr(holder, name, real)
        Waits.clock = None
        try:
            why = self._why_not()
        except Exception as error:  # none may reach the program
            why = f"what it has cannot be seen: {error}"
        if why:
            self._refuse(why)
        self._running = _running_loop()
        self._hold()

    @property
    def is_current(self) -> bool:
        """Whether the files that the program has read or looked for are unchanged."""
        return all(_state_of(path, is_listed) == state for (path, is_listed), state in self._seen.items())

    def leave(self, link: Any) -> None:
        """Continue from here in the process of a run, whose link to the server is `link`."""
        self.is_left = True
        for each in self._loops:
            each.renew()
        vars(threading.Thread)["_set_native_id"](threading.current_thread())
        if self._running is not None:
            sys.modules["asyncio"]._set_running_loop(self._running)  # it knows the process
        self.clock.connect(link)
        Waits.clock = self.clock

    def _replace(self, holder: Any, name: str, function: _Function) -> None:
        self._replaced.append((holder, name, getattr(holder, name), function))
        setattr(holder, name, function)

    def _noting(self, real: _Function) -> _Function:
        def look(path: Any, *args: Any, **options: Any) -> Any:
            if self._is_watching and not isinstance(path, int):
                self._note(path)
            return real(path, *args, **options)

        return look

    def _before_own(self, real: _Function) -> _Function:
        def ask(*args: Any) -> Any:
            if self._is_watching and _is_own_code(sys._getframe(1)):
                self.reach()
            return real(*args)

        return ask

    def _before(self, real: _Function) -> _Function:
        def start(*args: Any, **options: Any) -> Any:
            self.reach()
            return real(*args, **options)

        return start

    def _on_event(self, event: str, args: tuple[Any, ...]) -> None:
        if not self._is_watching or event in HARMLESS or self._reaching == threading.get_ident():
            return
        if event in _SIGNALS:
            self._refuse("it sends a signal")  # perhaps to this process, which the runs need
        elif event == "open":
            self._on_open(*args)
        elif event in ("os.listdir", "os.scandir"):
            if sys._getframe(1).f_code.co_filename not in _IMPORT_FILES:
                self._note("." if args[0] is None else args[0], is_listed=True)
        elif event != "socket.__new__" or (args[1] in _NETWORK_FAMILIES and _running_loop() is not None):
            self.reach()  # without a loop, a socket that is only made is nothing yet, and its name is also looked up

    def _on_open(self, path: Any = None, mode: Any = None, flags: Any = None, *_: Any) -> None:
        if isinstance(path, int):
            return
        if isinstance(flags, int) and not flags & _WRITING:
            self._note(path)
        else:
            self.reach()

    def _note(self, path: Any, *, is_listed: bool = False) -> None:
        """Note a file or folder, unless it is a library's. Anything else is left to the runs."""
        try:
            name = os.path.abspath(os.fsdecode(path))
        except (OSError, TypeError, ValueError):
            return self.reach()
        key = (name, is_listed)
        if key in self._seen or preload.is_of_library(name):
            return None
        state = _state_of(name, is_listed)
        is_plain = state is None or stat.S_ISREG(state[0]) or stat.S_ISDIR(state[0])
        if not is_plain or name.startswith(_SPECIAL_FOLDERS) or len(self._seen) >= MAX_FILES_SEEN:
            return self.reach()
        self._seen[key] = state
        return None

    def _why_not(self) -> str:
        """Return what the runs would share or miss of the program, or ""."""
        self._loops = list(_loop_files())
        own = {file for each in self._loops for file in each.numbers}
        files = {number: name for number, name in _open_files().items() if number not in own}
        reasons = {
            "it has opened a file or a connection": files != self._files,
            "its event loop has something to do": any(each.is_woken for each in self._loops),
            "it shares memory": _shared_memory() != self._shared,
            "it has written something": _written_bytes() != self._written,
            "it has a timer": any(any(signal.getitimer(timer)) for timer in _TIMERS),
            "it has a process": has_children(),
        }
        return next((why for why, is_so in reasons.items() if is_so), "")


class _TimeToForkPoint(SharedTime):
    """Time of a program without a link to the server: its first wait is the fork point."""

    def __init__(self, address: tuple[str, int], point: ForkPoint) -> None:
        super().__init__(None, address)
        self._point = point

    def wait(self, seconds: float, **options: Any) -> Any:
        self._point.reach()
        return super().wait(seconds, **options)

    def connect(self, link: Any) -> None:
        self._link = link


_FileState: TypeAlias = tuple[int, ...] | None


def _state_of(path: str, is_listed: bool) -> _FileState:
    """Return the state of a file, or of a folder with relevant names, or None if it does not exist."""
    try:
        found = _stat(path)
    except (OSError, ValueError):
        return None
    if stat.S_ISDIR(found.st_mode) and not is_listed:
        return (found.st_mode,)
    return found.st_mode, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _is_own_code(frame: Any) -> bool:
    """Return whether the program's own code calls, perhaps through the standard library, and not one of its libraries.

    `logging` always asks for the process id, and hardly any program prints it.
    """
    while frame is not None and preload.is_standard_library(file := frame.f_code.co_filename):
        if file in _IMPORT_FILES or frame.f_globals.get("__name__") == "logging":
            return False
        frame = frame.f_back
    return frame is None or not preload.is_of_library(frame.f_code.co_filename)


def _open_files() -> dict[int, str]:
    found = {}
    for number in _listdir("/proc/self/fd"):
        with suppress(OSError):  # the one that lists them
            found[int(number)] = _readlink(f"/proc/self/fd/{number}")
    return found


def _shared_memory() -> list[str]:
    """Return the mappings that can be written to, and that a fork does not copy."""
    with open("/proc/self/maps") as maps:
        lines = [line.split(maxsplit=5) for line in maps]
    return [" ".join((words[0], *words[5:])) for words in lines if words[1][1::2] == "ws"]


def _written_bytes() -> int:
    """Return the number of bytes that this process has written elsewhere than to its output files, or 0 if unknown."""
    try:
        with open("/proc/self/io") as counts:
            written = next(int(line.split()[1]) for line in counts if line.startswith("wchar:"))
    except OSError:
        return 0
    return written - sum(os.fstat(number).st_size for number in (1, 2))


def _running_loop() -> Any:
    asyncio = sys.modules.get("asyncio")
    return None if asyncio is None else asyncio._get_running_loop()


def _loop_files() -> Iterator[_LoopFiles]:
    """Yield the files of asyncio's open event loops that wait for nothing yet."""
    asyncio, selectors = sys.modules.get("asyncio"), sys.modules.get("selectors")
    if asyncio is None or selectors is None:
        return
    loops = [each for each in gc.get_objects() if type(each) is asyncio.SelectorEventLoop and not each.is_closed()]
    for each in loops:
        is_known = type(each._selector) is selectors.EpollSelector
        if is_known and list(each._selector.get_map()) == [each._ssock.fileno()]:
            yield _LoopFiles(each)


class _LoopFiles:
    """An event loop's epoll object, and the two sockets that let a thread or a signal wake it.

    Processes that share them would wake each other, so every run gets its own, with the same numbers.
    """

    def __init__(self, loop: Any) -> None:
        self._epoll, self._sockets = loop._selector._selector, (loop._ssock, loop._csock)

    @property
    def numbers(self) -> tuple[int, ...]:
        return (self._epoll.fileno(), *(each.fileno() for each in self._sockets))

    @property
    def is_woken(self) -> bool:
        """Whether there is data to be read."""
        return any(fcntl.ioctl(each, termios.FIONREAD, b"\0\0\0\0") != b"\0\0\0\0" for each in self._sockets)

    def renew(self) -> None:
        with select.epoll() as epoll:
            os.dup2(epoll.fileno(), self._epoll.fileno(), inheritable=False)
        for old, new in zip(self._sockets, socket.socketpair(), strict=True):
            with new:
                new.setblocking(False)
                os.dup2(new.fileno(), old.fileno(), inheritable=False)
        self._epoll.register(self._sockets[0].fileno(), select.EPOLLIN)
