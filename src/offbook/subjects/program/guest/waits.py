"""Puts all of Python's waits on a shared clock: `time`, `datetime`, locks, threads, queues, sockets and selectors.

The functions and methods are replaced in place, once, before the program's libraries are loaded, so all references
point here. They are the real ones until `Waits.clock` is set, in the process of a run.
"""

from __future__ import annotations

import _queue
import _thread
import ctypes
import datetime as dt
import gc
import math
import os
import queue
import select
import socket
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from .shared_time import SharedTime

if TYPE_CHECKING:
    from offbook.virtual_time import REAL, TimeReferences
else:  # it is beside this file, under the name of the guest
    from .virtual_time import REAL, TimeReferences

_Function = Callable[..., Any]


class Waits:
    """The clock of this process, or None while time is real. `start_s` are its real start times."""

    clock: ClassVar[SharedTime | None] = None
    start_s: ClassVar[dict[str, float]] = {name: REAL[name]() for name in ("monotonic", "perf_counter", "time")}

    @classmethod
    def follow(cls, clock: SharedTime | None) -> None:
        """Put all waits on this clock, which starts now, or in real time."""
        cls.clock = None
        cls.start_s = {name: REAL[name]() for name in cls.start_s}
        cls.clock = clock

    @classmethod
    def seconds(cls, name: str) -> float:
        """Return the present value of a function of `time`."""
        return float(REAL[name]()) if cls.clock is None else cls.clock.read_s() + cls.start_s[name]


def install() -> None:
    """Replace the functions that wait or read the time. A process that a run forks continues in real time."""
    TimeReferences(includes_standard_library=True).replace(_time_functions())
    _replace_calendar()
    _replace_locks()
    _replace_selectors()
    readable = ("recv", "recv_into", "recvfrom", "recvfrom_into", "recvmsg", "recvmsg_into", "accept")
    for name in readable:
        setattr(socket.socket, name, _when_readable(getattr(socket.socket, name)))
    os.register_at_fork(after_in_child=lambda: Waits.follow(None))


def _method(kind: type, name: str) -> _Function:
    function: _Function = kind.__dict__[name]
    return function


def _replace_method(kind: type, name: str, function: Any) -> None:
    """Replace a method of a type, even a built-in one."""
    gc.get_referents(kind.__dict__)[0][name] = function
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(kind))


def _time_functions() -> dict[str, _Function]:
    def sleep(seconds: float, /) -> None:
        clock = Waits.clock
        if clock is None or not seconds > 0:
            REAL["sleep"](seconds)
        else:
            clock.wait(float(seconds), pause=_sleep)

    functions: dict[str, _Function] = {"sleep": sleep}
    for name in Waits.start_s:
        functions[name] = _seconds_of(name)
        functions[f"{name}_ns"] = _nanoseconds_of(name)
    return functions


def _sleep(seconds: float | None) -> None:
    if seconds != 0:  # even for no time at all, the system takes a while
        REAL["sleep"](3600.0 if seconds is None else seconds)


def _seconds_of(name: str) -> _Function:
    return lambda: Waits.seconds(name)


def _nanoseconds_of(name: str) -> _Function:
    real = REAL[f"{name}_ns"]
    return lambda: real() if Waits.clock is None else round(Waits.seconds(name) * 1e9)


def _replace_calendar() -> None:
    """Let dates come from the clock where no time is given."""
    for name in ("localtime", "gmtime", "ctime"):
        setattr(time, name, _with_default(getattr(time, name)))
    strftime, localtime = time.strftime, time.localtime
    time.strftime = lambda text, when=None, /: strftime(text, localtime() if when is None else when)
    _replace_method(dt.datetime, "now", classmethod(_now))
    _replace_method(dt.datetime, "utcnow", classmethod(_utcnow))


def _with_default(real: _Function) -> _Function:
    return lambda seconds=None, /: real(Waits.seconds("time") if seconds is None else seconds)


def _now(kind: type[dt.datetime], tz: dt.tzinfo | None = None) -> dt.datetime:
    return kind.fromtimestamp(Waits.seconds("time"), tz)


def _utcnow(kind: type[dt.datetime]) -> dt.datetime:
    return kind.fromtimestamp(Waits.seconds("time"), dt.UTC).replace(tzinfo=None)


def _replace_locks() -> None:
    lock, rlock = type(_thread.allocate_lock()), _thread.RLock
    for kind, is_free in ((lock, _is_unlocked), (rlock, _is_unlocked_rlock)):
        real = _method(kind, "acquire")
        _replace_method(kind, "acquire", _acquire(real, is_free))
        _replace_method(kind, "__enter__", _enter(real, is_free))
    _replace_method(_queue.SimpleQueue, "get", _get(_method(_queue.SimpleQueue, "get")))
    handle = getattr(_thread, "_ThreadHandle", None)
    if handle is not None:
        _replace_method(handle, "join", _join(_method(handle, "join")))


def _is_unlocked(lock: Any) -> bool:
    return not lock.locked()


def _is_unlocked_rlock(lock: Any) -> bool:
    return repr(lock).startswith("<unlocked")


def _acquire(real: _Function, is_free: _Function) -> _Function:
    def acquire(self: Any, blocking: bool = True, timeout: float = -1) -> bool:
        clock = Waits.clock
        if clock is None or not blocking or timeout == 0:
            return bool(real(self, blocking, timeout))
        if real(self, False):
            return True
        if timeout < 0 and timeout != -1:
            return bool(real(self, blocking, timeout))
        return _take(clock, self, real, is_free, math.inf if timeout == -1 else timeout)

    return acquire


def _enter(real: _Function, is_free: _Function) -> _Function:
    def enter(self: Any) -> bool:
        clock = Waits.clock
        if clock is None:
            return bool(real(self))
        return bool(real(self, False)) or _take(clock, self, real, is_free, math.inf)

    return enter


def _take(clock: SharedTime, lock: Any, real: _Function, is_free: _Function, seconds: float) -> bool:
    def pause(pause_s: float | None) -> bool:
        return bool(real(lock, True, -1 if pause_s is None else pause_s))

    return bool(clock.wait(seconds, pause=pause, is_woken=lambda: is_free(lock)))


def _get(real: _Function) -> _Function:
    def get(self: Any, block: bool = True, timeout: float | None = None) -> Any:
        clock = Waits.clock
        if clock is None or not block or (timeout is not None and timeout <= 0):
            return real(self, block, timeout)

        def pause(pause_s: float | None) -> tuple[Any] | None:
            try:
                return (real(self, pause_s != 0, pause_s),)
            except queue.Empty:
                return None

        found = clock.wait(math.inf if timeout is None else timeout, pause=pause, is_woken=lambda: not self.empty())
        if found is None:
            raise queue.Empty
        return found[0]

    return get


def _join(real: _Function) -> _Function:
    def join(self: Any, timeout: float | None = None) -> None:
        clock = Waits.clock
        if clock is None or self.is_done() or (timeout is not None and timeout <= 0):
            real(self, timeout)
            return

        def pause(pause_s: float | None) -> bool:
            real(self, pause_s)
            return bool(self.is_done())

        clock.wait(math.inf if timeout is None else timeout, pause=pause, is_woken=self.is_done)

    return join


def _seconds(timeout: float | None, unit_s: float = 1.0) -> float:
    return math.inf if timeout is None or timeout < 0 else timeout * unit_s


def _replace_selectors() -> None:
    real_select: _Function = select.select

    def virtual_select(rlist: Any, wlist: Any, xlist: Any, timeout: float | None = None, /) -> Any:
        clock = Waits.clock
        if clock is None or (timeout is not None and timeout <= 0):
            return real_select(rlist, wlist, xlist, timeout)
        lists = [list(each) for each in (rlist, wlist, xlist)]

        def pause(pause_s: float | None) -> Any:
            found = real_select(*lists, pause_s)
            return found if any(found) else None

        files = [_number_of(each) for each in lists[0] + lists[1] + lists[2]]
        found = clock.wait(_seconds(timeout), pause=pause, is_woken=lambda: bool(pause(0.0)), files=lambda: files)
        return found or ([], [], [])

    _replace_function(select, "select", virtual_select)
    _replace_method(select.epoll, "poll", _epoll_poll(_method(select.epoll, "poll")))
    _replace_poll()


def _is_any_ready(events: Mapping[int, int]) -> bool:
    """Return whether one of these events has happened to its file. Any thread may ask, and nothing is consumed."""
    poll = _new_poll()
    for file, mask in events.items():
        _register(poll, file, mask)
    return bool(_poll(poll, 0))


def _replace_function(module: Any, name: str, function: _Function) -> None:
    """Replace a function of a module, also in other modules of the standard library."""
    real = getattr(module, name)
    for holder in gc.get_referrers(real):
        if isinstance(holder, dict) and "__name__" in holder and holder is not globals():
            for alias in [alias for alias, value in holder.items() if value is real]:
                holder[alias] = function


def _epoll_poll(real: _Function) -> _Function:
    def poll(self: Any, timeout: float | None = None, maxevents: int = -1) -> Any:
        clock = Waits.clock
        if clock is None or timeout == 0:
            return real(self, timeout, maxevents)
        number = self.fileno()

        def pause(pause_s: float | None) -> Any:
            return real(self, pause_s, maxevents)

        def is_woken() -> bool:
            return _is_any_ready({number: select.POLLIN})

        seconds = _seconds(timeout)
        return clock.wait(seconds, pause=pause, is_woken=is_woken, files=lambda: _watched_by(number)) or []

    return poll


def _watched_by(epoll: int) -> list[int]:
    """Return the files that an epoll object waits for."""
    with open(f"/proc/self/fdinfo/{epoll}") as file:
        return [int(line.split()[1]) for line in file if line.startswith("tfd:")]


_new_poll: _Function = select.poll
_POLL_METHODS = ("poll", "register", "modify", "unregister")
_poll, _register, _modify, _unregister = (_method(type(select.poll()), name) for name in _POLL_METHODS)
_ALL_EVENTS = select.POLLIN | select.POLLPRI | select.POLLOUT


class _PolledFiles:
    """The files that poll objects wait for, by the objects' identities: they cannot be asked."""

    def __init__(self) -> None:
        self._files: dict[int, dict[int, int]] = {}

    def new_poll(self) -> Any:
        made = _new_poll()
        self._files[id(made)] = {}
        return made

    def register(self, poll: Any, file: Any, *mask: int) -> Any:
        result = _register(poll, file, *mask)
        self.of(poll)[_number_of(file)] = mask[0] if mask else _ALL_EVENTS
        return result

    def modify(self, poll: Any, file: Any, mask: int) -> Any:
        result = _modify(poll, file, mask)
        self.of(poll)[_number_of(file)] = mask
        return result

    def unregister(self, poll: Any, file: Any) -> Any:
        self.of(poll).pop(_number_of(file), None)
        return _unregister(poll, file)

    def of(self, poll: Any) -> dict[int, int]:
        """Return the events that a poll object waits for, by their files."""
        return self._files.setdefault(id(poll), {})


def _number_of(file: Any) -> int:
    return file if isinstance(file, int) else int(file.fileno())


def _replace_poll() -> None:
    polled = _PolledFiles()

    def poll(self: Any, timeout: float | None = None, /) -> Any:
        clock = Waits.clock
        if clock is None or timeout == 0:
            return _poll(self, timeout)

        def pause(pause_s: float | None) -> Any:
            return _poll(self, None if pause_s is None else math.ceil(pause_s * 1000))

        events = dict(polled.of(self))
        seconds = _seconds(timeout, 0.001)
        return clock.wait(seconds, pause=pause, is_woken=lambda: _is_any_ready(events), files=lambda: events) or []

    kind = type(_new_poll())
    _replace_method(kind, "register", lambda *given: polled.register(*given))  # noqa: PLW0108 - only a
    _replace_method(kind, "unregister", lambda *given: polled.unregister(*given))  # noqa: PLW0108 - function is bound
    _replace_method(kind, "modify", lambda *given: polled.modify(*given))  # noqa: PLW0108 - when it is looked up
    _replace_method(kind, "poll", poll)
    _replace_function(select, "poll", polled.new_poll)


def _when_readable(real: _Function) -> _Function:
    def method(self: socket.socket, *args: Any, **options: Any) -> Any:
        clock, timeout = Waits.clock, self.gettimeout()
        if clock is not None and timeout != 0 and self.fileno() >= 0:
            poll, events = _new_poll(), {self.fileno(): select.POLLIN}
            _register(poll, self.fileno(), select.POLLIN)

            def pause(pause_s: float | None) -> Any:
                return _poll(poll, None if pause_s is None else math.ceil(pause_s * 1000))

            def is_woken() -> bool:
                return _is_any_ready(events)

            if not clock.wait(_seconds(timeout), pause=pause, is_woken=is_woken, files=lambda: events):
                raise TimeoutError("timed out")
        return real(self, *args, **options)

    method.__name__ = getattr(real, "__name__", "method")
    return method
